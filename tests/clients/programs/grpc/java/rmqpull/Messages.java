package rmqpull;

import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.java.message.MessageViewImpl;

/** Messages and subscriptions as JSON. */
final class Messages {
    private Messages() {}

    /** Returns the message that a request describes: topic, tag, keys, messageGroup, deliveryMs, priority, ... */
    static Message build(JSONObject request, String body) {
        MessageBuilder message = Clients.PROVIDER.newMessageBuilder()
            .setTopic(request.getString("topic"))
            .setBody(body.getBytes(StandardCharsets.UTF_8));
        if (request.getString("tag") != null) {
            message.setTag(request.getString("tag"));
        }
        JSONArray keys = request.getJSONArray("keys");
        if (keys != null && !keys.isEmpty()) {
            message.setKeys(keys.toArray(new String[0]));
        }
        if (request.getString("messageGroup") != null) {
            message.setMessageGroup(request.getString("messageGroup"));
        }
        if (request.getLong("deliveryMs") != null) {
            message.setDeliveryTimestamp(request.getLong("deliveryMs"));
        }
        if (request.getInteger("priority") != null) {
            message.setPriority(request.getInteger("priority"));
        }
        if (request.getString("liteTopic") != null) {
            message.setLiteTopic(request.getString("liteTopic"));
        }
        JSONObject properties = request.getJSONObject("properties");
        if (properties != null) {
            properties.forEach((name, value) -> message.addProperty(name, value.toString()));
        }
        return message.build();
    }

    /** Returns a message as the client shows it. Its time of delivery, priority and lite topic are there if it has them. */
    static JSONObject write(MessageView message) {
        JSONObject written = JSONObject.of("messageId", message.getMessageId().toString(), "topic", message.getTopic());
        written.put("body", StandardCharsets.UTF_8.decode(message.getBody()).toString());
        written.put("tag", message.getTag().orElse(null));
        written.put("keys", message.getKeys());
        written.put("messageGroup", message.getMessageGroup().orElse(null));
        written.put("properties", new TreeMap<>(message.getProperties()));
        written.put("attempt", message.getDeliveryAttempt());
        // The interface shows neither handles nor offsets.
        written.put("handle", ((MessageViewImpl) message).getReceiptHandle());
        written.put("queueOffset", ((MessageViewImpl) message).getOffset());
        message.getDeliveryTimestamp().ifPresent(atMs -> written.put("deliveryMs", atMs));
        message.getPriority().ifPresent(priority -> written.put("priority", priority));
        message.getLiteTopic().ifPresent(topic -> written.put("liteTopic", topic));
        return written;
    }

    /** Returns the subscriptions of a request: {topic: expression}, which are SQL if it has "sql". */
    static Map<String, FilterExpression> subscriptions(JSONObject request) {
        Map<String, FilterExpression> subscriptions = new TreeMap<>();
        request.getJSONObject("subscriptions")
            .forEach((topic, expression) -> subscriptions.put(topic, filter(request, expression.toString())));
        return subscriptions;
    }

    static FilterExpression filter(JSONObject request, String expression) {
        boolean isSql = request.getBooleanValue("sql");
        return new FilterExpression(expression, isSql ? FilterExpressionType.SQL92 : FilterExpressionType.TAG);
    }
}
