package rmqpull;

import com.alibaba.fastjson.JSONObject;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A push consumer. To start it: topic, and optionally expression, expressionType (TAG or SQL92), ordered, broadcasting,
 * consumeFromWhere, refusals (how often each message is refused), maxReconsumeTimes, traceTopic, strategy (see
 * Strategies), and replier (the producer that sends a reply to each message). With popInvisibleMs it leaves the shares to the broker, which may let it
 * pop; 4.x cannot.
 *
 * <p>Calls: queues (those that it has been given of topic), persist (its offsets; its timer begins after 10 s).
 */
final class PushClient implements Clients.Client {
    private final DefaultMQPushConsumer consumer;
    private final String name;
    private final String replier;
    private final int refusals;

    PushClient(JSONObject request) throws Exception {
        name = request.getString("client");
        replier = request.getString("replier");
        refusals = request.getIntValue("refusals");
        String traceTopic = request.getString("traceTopic");
        consumer = new DefaultMQPushConsumer(
            null, request.getString("group"), null, Strategies.make(request), traceTopic != null, traceTopic);
        Clients.configure(consumer, request);
        consumer.setSuspendCurrentQueueTimeMillis(50);
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax(2);
        consumer.setConsumeFromWhere(
            ConsumeFromWhere.valueOf(request.getOrDefault("consumeFromWhere", "CONSUME_FROM_FIRST_OFFSET").toString()));
        if (request.get("maxReconsumeTimes") != null) {
            consumer.setMaxReconsumeTimes(request.getIntValue("maxReconsumeTimes"));
        }
        if (request.get("popInvisibleMs") != null) {
            leaveSharesToBroker(request.getLongValue("popInvisibleMs"));
        }
        if (request.getBooleanValue("broadcasting")) {
            setBroadcasting();
        }
        consumer.subscribe(request.getString("topic"), selector(request));
        if (request.getBooleanValue("ordered")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                isRefused(messages)
                    ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT : ConsumeOrderlyStatus.SUCCESS);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
                isRefused(messages)
                    ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        }
        consumer.start();
    }

    @Override
    public Object call(String call, JSONObject request) {
        if (call.equals("persist")) {
            consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
            return null;
        }
        String topic = request.getString("topic");
        return Clients.write(consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet()
            .stream().filter(queue -> queue.getTopic().equals(topic)).collect(Collectors.toList()));
    }

    @Override
    public void shutdown() {
        consumer.shutdown();
    }

    static MessageSelector selector(JSONObject request) {
        String expression = request.getOrDefault("expression", "*").toString();
        return "SQL92".equals(request.getString("expressionType"))
            ? MessageSelector.bySql(expression) : MessageSelector.byTag(expression);
    }

    /** Prints the messages, replies to them if it should, and returns whether they are refused. */
    private boolean isRefused(List<MessageExt> messages) {
        boolean isRefused = false;
        for (MessageExt message : messages) {
            JSONObject line = new JSONObject(true);
            line.put("client", name);
            line.put("consumed", Records.writeAll(List.of(message)).getJSONObject(0));
            Clients.print(line);
            reply(message);
            isRefused |= message.getReconsumeTimes() < refusals;
        }
        return isRefused;
    }

    private void reply(MessageExt message) {
        if (replier == null) {
            return;
        }
        try {
            byte[] body = ("reply to " + new String(message.getBody(), StandardCharsets.UTF_8)).getBytes(StandardCharsets.UTF_8);
            ((ProducerClient) Clients.find(replier)).send(MessageUtil.createReplyMessage(message, body));
        } catch (Exception error) {
            throw new IllegalStateException(error); // the message is redelivered
        }
    }

    private void leaveSharesToBroker(long invisibleMs) throws ReflectiveOperationException {
        DefaultMQPushConsumer.class.getMethod("setClientRebalance", boolean.class).invoke(consumer, false);
        DefaultMQPushConsumer.class.getMethod("setPopInvisibleTime", long.class).invoke(consumer, invisibleMs);
    }

    /** 4.x and 5.x have the class MessageModel in different packages. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private void setBroadcasting() throws ReflectiveOperationException {
        for (Method method : DefaultMQPushConsumer.class.getMethods()) {
            if (method.getName().equals("setMessageModel")) {
                method.invoke(consumer, Enum.valueOf((Class<Enum>) method.getParameterTypes()[0], "BROADCASTING"));
            }
        }
    }
}
