package rmqpull;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Sends messages with Apache's producer. Reads one request per line, as JSON: a message, or {"batch": [message, ...]}.
 * Prints the result of each.
 *
 * <p>A message: topic, body (base64), and optionally tags, keys, flag, delayLevel, properties (also those of RocketMQ),
 * shardingKey (messages of one key go to one queue), broker and queue, transaction (a LocalTransactionState).
 *
 * <p>usage: Produce NAME_SERVERS
 */
public final class Produce {
    private static TransactionMQProducer producer;

    public static void main(String[] arguments) throws Exception {
        PrintStream output = System.out;
        System.setOut(System.err);
        producer = new TransactionMQProducer("producers-of-tests");
        producer.setNamesrvAddr(arguments[0]);
        producer.setTransactionListener(new AsTheMessageSays());
        producer.start();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JSONObject response = new JSONObject(true);
            try {
                write(send(JSON.parseObject(line)), response);
            } catch (Exception error) {
                response.put("error", error.toString());
            }
            output.println(Oracle.text(response));
            output.flush();
        }
        Runtime.getRuntime().halt(0); // shutdown() takes seconds, and nothing is left to send
    }

    private static SendResult send(JSONObject request) throws Exception {
        JSONArray batch = request.getJSONArray("batch");
        JSONObject first = batch == null ? request : batch.getJSONObject(0);
        MessageQueue queue = first.getString("broker") == null
            ? null : new MessageQueue(first.getString("topic"), first.getString("broker"), first.getIntValue("queue"));
        if (batch != null) {
            List<Message> messages = new ArrayList<>();
            for (int i = 0; i < batch.size(); i++) {
                messages.add(message(batch.getJSONObject(i)));
            }
            return queue == null ? producer.send(messages) : producer.send(messages, queue);
        }
        Message message = message(request);
        if (request.getString("transaction") != null) {
            return producer.sendMessageInTransaction(message, request.getString("transaction"));
        }
        if (request.getString("shardingKey") != null) {
            return producer.send(message, new SelectMessageQueueByHash(), request.getString("shardingKey"));
        }
        return queue == null ? producer.send(message) : producer.send(message, queue);
    }

    static Message message(JSONObject json) {
        Message message = new Message(json.getString("topic"), Oracle.bytes(json, "body"));
        message.setFlag(json.getIntValue("flag"));
        if (json.getString("tags") != null) {
            message.setTags(json.getString("tags"));
        }
        if (json.getString("keys") != null) {
            message.setKeys(json.getString("keys"));
        }
        if (json.getIntValue("delayLevel") > 0) {
            message.setDelayTimeLevel(json.getIntValue("delayLevel"));
        }
        if (json.getJSONObject("properties") != null) {
            Oracle.strings(json.getJSONObject("properties"))
                .forEach((name, value) -> MessageAccessor.putProperty(message, name, value));
        }
        return message;
    }

    static void write(SendResult result, JSONObject response) {
        response.put("status", result.getSendStatus().name());
        response.put("msgId", result.getMsgId());
        response.put("offsetMsgId", result.getOffsetMsgId());
        response.put("queueOffset", result.getQueueOffset());
        if (result.getMessageQueue() != null) {
            response.put("broker", result.getMessageQueue().getBrokerName());
            response.put("queue", result.getMessageQueue().getQueueId());
        }
    }

    private static final class AsTheMessageSays implements TransactionListener {
        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object state) {
            return LocalTransactionState.valueOf((String) state);
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            return LocalTransactionState.UNKNOW;
        }
    }
}
