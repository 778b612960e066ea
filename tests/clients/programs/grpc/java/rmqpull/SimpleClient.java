package rmqpull;

import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.java.message.MessageViewImpl;

/**
 * A simple consumer. Options: group, subscriptions, sql, awaitMs. Calls:
 *
 * <pre>
 * receive max invisibleMs -> list of messages
 * ack handle
 * change handle invisibleMs -> {"handle"}
 * subscribe topic expression, unsubscribe topic
 * </pre>
 *
 * <p>A call with a handle sends this handle, even if the client knows a newer one of the message.
 */
final class SimpleClient implements Clients.Client {
    private static final long AWAIT_MS = 5_000; // the library has no default
    private static final int VIEWS_MAX = 20_000;
    private final SimpleConsumer consumer;
    private final Map<String, MessageView> views = new LinkedHashMap<>() {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, MessageView> eldest) {
            return size() > VIEWS_MAX;
        }
    };

    SimpleClient(JSONObject request) throws Exception {
        consumer = Clients.PROVIDER.newSimpleConsumerBuilder()
            .setClientConfiguration(Clients.configure(request))
            .setConsumerGroup(request.getString("group"))
            .setSubscriptionExpressions(Messages.subscriptions(request))
            .setAwaitDuration(Duration.ofMillis(request.getLongValue("awaitMs", AWAIT_MS)))
            .build();
    }

    @Override
    public Object call(String call, JSONObject request) throws Exception {
        switch (call) {
            case "receive":
                return receive(request.getIntValue("max"), millis(request));
            case "ack":
                consumer.ack(find(request));
                return null;
            case "change":
                MessageViewImpl message = find(request);
                consumer.changeInvisibleDuration(message, millis(request));
                views.put(message.getReceiptHandle(), message);
                return JSONObject.of("handle", message.getReceiptHandle());
            case "subscribe":
                String expression = request.getString("expression");
                consumer.subscribe(request.getString("topic"), Messages.filter(request, expression));
                return null;
            case "unsubscribe":
                consumer.unsubscribe(request.getString("topic"));
                return null;
            default:
                throw new Clients.Unsupported(call);
        }
    }

    @Override
    public void close() throws Exception {
        consumer.close();
    }

    private JSONArray receive(int max, Duration invisible) throws Exception {
        JSONArray received = new JSONArray();
        for (MessageView message : consumer.receive(max, invisible)) {
            views.put(((MessageViewImpl) message).getReceiptHandle(), message);
            received.add(Messages.write(message));
        }
        return received;
    }

    private MessageViewImpl find(JSONObject request) {
        String handle = request.getString("handle");
        MessageViewImpl message = (MessageViewImpl) views.get(handle);
        if (message == null) {
            throw new IllegalArgumentException("No message was received with the handle " + handle + ".");
        }
        message.setReceiptHandle(handle);
        return message;
    }

    private static Duration millis(JSONObject request) {
        return Duration.ofMillis(request.getLongValue("invisibleMs"));
    }
}
