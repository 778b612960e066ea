// Runs producers and push consumers of rocketmq-client-go, in the way of the Java program Clients: it reads one call per
// line, as JSON, and prints its result, {"result": ...} or {"error": text}. What a push consumer consumes is printed at
// once: {"client": name, "consumed": message}.
//
// {"client": name, "call": "start", "kind": "push" or "producer", "nameServers": addresses, "group": group, ...} starts a
// client, and {"client": name, "call": "shutdown"} ends it. A push consumer takes topic, and optionally expression,
// expressionType, ordered, broadcasting, refusals and maxReconsumeTimes. A producer has the calls send and sendBatch.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

type message struct {
	Topic      string            `json:"topic"`
	Body       []byte            `json:"body"` // base64 in JSON
	Tags       string            `json:"tags"`
	Keys       string            `json:"keys"`
	DelayLevel int               `json:"delayLevel"`
	Properties map[string]string `json:"properties"`
}

type request struct {
	Client            string    `json:"client"`
	Call              string    `json:"call"`
	Kind              string    `json:"kind"`
	NameServers       string    `json:"nameServers"`
	Group             string    `json:"group"`
	Topic             string    `json:"topic"`
	Expression        string    `json:"expression"`
	ExpressionType    string    `json:"expressionType"`
	Ordered           bool      `json:"ordered"`
	Broadcasting      bool      `json:"broadcasting"`
	Refusals          int32     `json:"refusals"`
	MaxReconsumeTimes *int32    `json:"maxReconsumeTimes"`
	Message           message   `json:"message"`
	Messages          []message `json:"messages"`
}

type line = map[string]any

var (
	printing  sync.Mutex
	producers = map[string]rocketmq.Producer{}
	consumers = map[string]rocketmq.PushConsumer{}
)

func main() {
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 16<<20)
	for input.Scan() {
		var one request
		err := json.Unmarshal(input.Bytes(), &one)
		var result any
		if err == nil {
			result, err = call(&one)
		}
		if err != nil {
			print(line{"error": err.Error()})
		} else {
			print(line{"result": result})
		}
	}
}

func print(one line) {
	printing.Lock()
	defer printing.Unlock()
	_ = json.NewEncoder(os.Stdout).Encode(one)
}

func call(one *request) (any, error) {
	switch one.Call {
	case "start":
		if one.Kind == "producer" {
			return nil, startProducer(one)
		}
		return nil, startConsumer(one)
	case "shutdown":
		if consumer, found := consumers[one.Client]; found {
			return nil, consumer.Shutdown()
		}
		return nil, producers[one.Client].Shutdown()
	case "send":
		return send(one.Client, one.Message)
	case "sendBatch":
		return send(one.Client, one.Messages...)
	}
	return nil, errors.New("there is no call " + one.Call)
}

func startProducer(one *request) error {
	started, err := rocketmq.NewProducer(
		producer.WithNsResolver(primitive.NewPassthroughResolver(strings.Split(one.NameServers, ";"))),
		producer.WithGroupName(one.Group),
		producer.WithInstanceName(one.Client),
		producer.WithSendMsgTimeout(20*time.Second),
	)
	if err != nil {
		return err
	}
	producers[one.Client] = started
	return started.Start()
}

func startConsumer(one *request) error {
	options := []consumer.Option{
		consumer.WithNsResolver(primitive.NewPassthroughResolver(strings.Split(one.NameServers, ";"))),
		consumer.WithGroupName(one.Group),
		consumer.WithInstance(one.Client),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumerOrder(one.Ordered),
		consumer.WithSuspendCurrentQueueTimeMillis(50 * time.Millisecond),
	}
	if one.Broadcasting {
		options = append(options, consumer.WithConsumerModel(consumer.BroadCasting))
	}
	if one.MaxReconsumeTimes != nil {
		options = append(options, consumer.WithMaxReconsumeTimes(*one.MaxReconsumeTimes))
	}
	started, err := rocketmq.NewPushConsumer(options...)
	if err != nil {
		return err
	}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}
	if one.ExpressionType == "SQL92" {
		selector.Type = consumer.SQL92
	}
	if one.Expression != "" {
		selector.Expression = one.Expression
	}
	err = started.Subscribe(one.Topic, selector, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		return consume(one, messages), nil
	})
	if err != nil {
		return err
	}
	consumers[one.Client] = started
	return started.Start()
}

func consume(one *request, messages []*primitive.MessageExt) consumer.ConsumeResult {
	result := consumer.ConsumeSuccess
	for _, read := range messages {
		print(line{"client": one.Client, "consumed": line{
			"topic": read.Topic, "body": read.Body, "properties": read.GetProperties(), "msgId": read.MsgId,
			"offsetMsgId": read.OffsetMsgId, "queueId": read.Queue.QueueId, "queueOffset": read.QueueOffset,
			"reconsumeTimes": read.ReconsumeTimes, "storeHost": read.StoreHost,
		}})
		if read.ReconsumeTimes < one.Refusals {
			result = consumer.ConsumeRetryLater
			if one.Ordered {
				result = consumer.SuspendCurrentQueueAMoment
			}
		}
	}
	return result
}

func send(client string, all ...message) (any, error) {
	messages := make([]*primitive.Message, len(all))
	for i, one := range all {
		made := primitive.NewMessage(one.Topic, one.Body).WithTag(one.Tags).WithDelayTimeLevel(one.DelayLevel)
		if one.Keys != "" {
			made.WithKeys(strings.Split(one.Keys, " "))
		}
		for name, value := range one.Properties {
			made.WithProperty(name, value)
		}
		messages[i] = made
	}
	sent, err := producers[client].SendSync(context.Background(), messages...)
	if err != nil {
		return nil, err
	}
	return line{
		"isOk": sent.Status == primitive.SendOK, "msgId": sent.MsgID, "offsetMsgId": sent.OffsetMsgID,
		"queueOffset": sent.QueueOffset, "broker": sent.MessageQueue.BrokerName, "queue": sent.MessageQueue.QueueId,
	}, nil
}
