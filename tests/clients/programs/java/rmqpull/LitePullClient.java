package rmqpull;

import com.alibaba.fastjson.JSONObject;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * A lite pull consumer. To start it: optionally topic, expression and expressionType (what it subscribes to), or queues
 * (what it assigns to itself).
 *
 * <p>Calls: poll, commitAll, commit, committed, seek, seekToBegin, seekToEnd, pause, resume, findOffset (by time), queues,
 * assignment.
 */
final class LitePullClient implements Clients.Client {
    private final DefaultLitePullConsumer consumer;

    LitePullClient(JSONObject request) throws Exception {
        consumer = new DefaultLitePullConsumer(request.getString("group"));
        Clients.configure(consumer, request);
        consumer.setAutoCommit(false);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (request.getString("topic") != null) {
            consumer.subscribe(request.getString("topic"), PushClient.selector(request));
        }
        consumer.start();
        if (request.getJSONArray("queues") != null) {
            consumer.assign(Strategies.queues(request.getJSONArray("queues")));
        }
    }

    @Override
    public Object call(String call, JSONObject request) throws Exception {
        MessageQueue queue = Clients.queue(request);
        switch (call) {
            case "poll":
                return Records.writeAll(consumer.poll(request.getLongValue("timeoutMs")));
            case "queues":
                return Clients.write(consumer.fetchMessageQueues(request.getString("topic")));
            case "assignment": // what it has been given of the topics that it subscribes to
                return Clients.write(consumer.assignment());
            case "committed":
                return consumer.committed(queue);
            case "findOffset":
                return consumer.offsetForTimestamp(queue, request.getLongValue("timestamp"));
            default:
                change(call, queue, request.getLongValue("offset"));
                return null;
        }
    }

    @Override
    public void shutdown() {
        consumer.shutdown();
    }

    private void change(String call, MessageQueue queue, long offset) throws Exception {
        switch (call) {
            case "commitAll": // what was polled; shutdown() tells the broker
                consumer.commitSync();
                break;
            case "commit":
                consumer.commitSync(Map.of(queue, offset), true);
                break;
            case "seek":
                consumer.seek(queue, offset);
                break;
            case "seekToBegin":
                consumer.seekToBegin(queue);
                break;
            case "seekToEnd":
                consumer.seekToEnd(queue);
                break;
            case "pause":
                consumer.pause(List.of(queue));
                break;
            case "resume":
                consumer.resume(List.of(queue));
                break;
            default:
                throw new IllegalArgumentException(call);
        }
    }
}
