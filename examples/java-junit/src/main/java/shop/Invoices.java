package shop;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends an invoice for each paid order.
 *
 * <p>RocketMQ's client takes the address of the name server from the system property {@code rocketmq.namesrv.addr} or
 * the environment variable {@code NAMESRV_ADDR}.
 */
public final class Invoices implements AutoCloseable {
    /** Writes the text of an invoice. If it throws, the order comes again after a second. */
    public interface Writer {
        String write(String order);
    }

    private final DefaultMQPushConsumer orders = new DefaultMQPushConsumer("invoices-of-shop");
    private final DefaultMQProducer invoices = new DefaultMQProducer("invoices-of-shop");
    private final Writer writer;

    public Invoices(Writer writer) throws MQClientException {
        this.writer = writer;
        invoices.start();
        orders.subscribe("orders", "paid");
        orders.registerMessageListener(this::consume);
        orders.start();
    }

    private ConsumeConcurrentlyStatus consume(List<MessageExt> messages, ConsumeConcurrentlyContext context) {
        context.setDelayLevelWhenNextConsume(1); // a second
        try {
            for (MessageExt order : messages) {
                String text = writer.write(new String(order.getBody(), UTF_8));
                invoices.send(new Message("invoices", "", order.getKeys(), text.getBytes(UTF_8)));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        } catch (Exception failed) {
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        }
    }

    @Override
    public void close() {
        orders.shutdown();
        invoices.shutdown();
    }
}
