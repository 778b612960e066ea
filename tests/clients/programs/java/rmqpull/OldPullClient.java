package rmqpull;

import com.alibaba.fastjson.JSONObject;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * The pull consumer that lite pull has replaced.
 *
 * <p>Calls: queues, pull (with offset, max, expression and expressionType; with wait, the broker parks it),
 * setOffset, findOffset (the offset of the group), sendBack (the message at an offset).
 */
@SuppressWarnings("deprecation")
final class OldPullClient implements Clients.Client {
    private static final int WITHIN_MS = 20_000;
    private final DefaultMQPullConsumer consumer;

    OldPullClient(JSONObject request) throws Exception {
        consumer = new DefaultMQPullConsumer(request.getString("group"));
        Clients.configure(consumer, request);
        consumer.start();
    }

    @Override
    public Object call(String call, JSONObject request) throws Exception {
        MessageQueue queue = Clients.queue(request);
        long offset = request.getLongValue("offset");
        switch (call) {
            case "queues":
                return Clients.write(consumer.fetchSubscribeMessageQueues(request.getString("topic")));
            case "pull":
                return write(pull(queue, request));
            case "setOffset":
                consumer.getOffsetStore().updateConsumeOffsetToBroker(queue, offset, false);
                return null;
            case "findOffset":
                return consumer.fetchConsumeOffset(queue, true);
            case "sendBack":
                MessageExt message = consumer.pull(queue, "*", offset, 1).getMsgFoundList().get(0);
                consumer.sendMessageBack(message, request.getIntValue("delayLevel"));
                return null;
            default:
                throw new IllegalArgumentException(call);
        }
    }

    @Override
    public void shutdown() {
        consumer.shutdown();
    }

    private PullResult pull(MessageQueue queue, JSONObject request) throws Exception {
        long offset = request.getLongValue("offset");
        int max = (Integer) request.getOrDefault("max", 32);
        return request.getBooleanValue("wait")
            ? consumer.pullBlockIfNotFound(queue, request.getOrDefault("expression", "*").toString(), offset, max)
            : consumer.pull(queue, PushClient.selector(request), offset, max, WITHIN_MS);
    }

    private static JSONObject write(PullResult result) {
        JSONObject written = new JSONObject(true);
        written.put("status", result.getPullStatus().name());
        written.put("next", result.getNextBeginOffset());
        written.put("min", result.getMinOffset());
        written.put("max", result.getMaxOffset());
        written.put("messages", result.getMsgFoundList() == null ? null : Records.writeAll(result.getMsgFoundList()));
        return written;
    }
}
