package rmqpull;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.MessageListener;
import org.apache.rocketmq.client.apis.message.MessageView;

/** Prints each message, fails its first deliveries to this consumer, and then succeeds. With -1 it always fails. */
final class FailingListener implements MessageListener {
    private final String client;
    private final int fail;
    private final Map<String, Integer> failed = new ConcurrentHashMap<>(); // by message id, until it succeeds

    FailingListener(String client, int fail) {
        this.client = client;
        this.fail = fail;
    }

    @Override
    public ConsumeResult consume(MessageView message) {
        Clients.print(client, "consumed", Messages.write(message));
        String id = message.getMessageId().toString();
        if (fail < 0 || (fail > 0 && failed.merge(id, 1, Integer::sum) <= fail)) {
            return ConsumeResult.FAILURE;
        }
        failed.remove(id);
        return ConsumeResult.SUCCESS;
    }
}
