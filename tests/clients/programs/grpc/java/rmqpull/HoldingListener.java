package rmqpull;

import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.MessageListener;
import org.apache.rocketmq.client.apis.message.MessageView;

/** Consumes as another listener does, but with "hold" it ends no message before the consumer lets them go. */
final class HoldingListener implements MessageListener {
    private final MessageListener listener;
    private final CountDownLatch held;

    HoldingListener(MessageListener listener, boolean holds) {
        this.listener = listener;
        this.held = new CountDownLatch(holds ? 1 : 0);
    }

    void letGo() {
        held.countDown();
    }

    @Override
    public ConsumeResult consume(MessageView message) {
        ConsumeResult result = listener.consume(message);
        try {
            held.await();
        } catch (InterruptedException closed) {
            Thread.currentThread().interrupt();
        }
        return result;
    }
}
