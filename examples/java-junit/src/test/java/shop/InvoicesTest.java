package shop;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class InvoicesTest {
    private final String run = UUID.randomUUID().toString(); // the topics may have messages of earlier runs
    private final BlockingQueue<String> received = new LinkedBlockingQueue<>();
    private final DefaultMQProducer shop = new DefaultMQProducer("shop-" + run);
    private final DefaultMQPushConsumer customer = new DefaultMQPushConsumer("customer-" + run);

    @BeforeEach
    void start() throws Exception {
        shop.start();
        customer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        customer.subscribe("invoices", "*");
        customer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.stream().filter(one -> one.getKeys().equals(run))
                .forEach(one -> received.add(new String(one.getBody(), UTF_8)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        customer.start();
    }

    @AfterEach
    void stop() {
        customer.shutdown();
        shop.shutdown();
    }

    @Test
    void eachPaidOrderGetsAnInvoice() throws Exception {
        try (Invoices invoices = new Invoices(order -> "invoice for " + order)) {
            order("paid", "book");
            order("open", "chair");
            order("paid", "lamp");
            assertEquals(Set.of("invoice for book", "invoice for lamp"), receive(2));
        }
    }

    @Test
    void anInvoiceThatFailsIsWrittenLater() throws Exception {
        AtomicInteger attempts = new AtomicInteger();
        Invoices.Writer failsOnce = order -> {
            if (order.equals("desk") && attempts.incrementAndGet() == 1) {
                throw new IllegalStateException("the printer has no paper");
            }
            return "invoice for " + order;
        };
        try (Invoices invoices = new Invoices(failsOnce)) {
            order("paid", "desk");
            assertEquals(Set.of("invoice for desk"), receive(1));
            assertEquals(2, attempts.get());
        }
    }

    private void order(String tag, String what) throws Exception {
        shop.send(new Message("orders", tag, run, what.getBytes(UTF_8)));
    }

    private Set<String> receive(int count) throws InterruptedException {
        Set<String> texts = new TreeSet<>();
        for (int number = 0; number < count; number++) {
            // A retry comes after 10 s, and a new group may learn 30 s later where retries are.
            String text = received.poll(90, TimeUnit.SECONDS);
            assertNotNull(text, "an invoice");
            texts.add(text);
        }
        return texts;
    }
}
