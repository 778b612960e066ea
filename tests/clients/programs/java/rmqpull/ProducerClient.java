package rmqpull;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * A producer, also of transactions. To start it: optionally compressFromBytes and traceTopic.
 *
 * <p>Calls: send (sync), sendAsync, sendOneWay and sendBatch, with a message of Produce, or messages; sendInTransaction,
 * where the states of the message say what the transaction is at first, and at each check; request; and what producers
 * ask brokers.
 */
final class ProducerClient implements Clients.Client {
    private static final int WITHIN_MS = 20_000;
    private final TransactionMQProducer producer;

    ProducerClient(JSONObject request) throws Exception {
        String traceTopic = request.getString("traceTopic");
        producer = new TransactionMQProducer(null, request.getString("group"), null, traceTopic != null, traceTopic);
        Clients.configure(producer, request);
        producer.setSendMsgTimeout(WITHIN_MS);
        producer.setCompressMsgBodyOverHowmuch((Integer) request.getOrDefault("compressFromBytes", 4096));
        producer.setTransactionListener(new AsTheMessageSays());
        producer.start();
    }

    SendResult send(Message message) throws Exception {
        return producer.send(message);
    }

    @Override
    public Object call(String call, JSONObject request) throws Exception {
        switch (call) {
            case "send":
                return write(send(request.getJSONObject("message")));
            case "sendAsync":
                return write(sendAsync(Produce.message(request.getJSONObject("message"))));
            case "sendOneWay":
                producer.sendOneway(Produce.message(request.getJSONObject("message")));
                return null;
            case "sendBatch":
                return write(producer.send(messages(request.getJSONArray("messages"))));
            case "sendInTransaction":
                Message message = Produce.message(request.getJSONObject("message"));
                return write(producer.sendMessageInTransaction(message, null));
            case "request":
                return Records.writeAll(List.of(request(request.getJSONObject("message")))).get(0);
            default:
                return ask(call, request);
        }
    }

    @Override
    public void shutdown() {
        producer.shutdown();
    }

    private Object ask(String call, JSONObject request) throws Exception {
        String topic = request.getString("topic");
        MessageQueue queue = Clients.queue(request);
        switch (call) {
            case "queues":
                return Clients.write(producer.fetchPublishMessageQueues(topic));
            case "minOffset":
                return producer.minOffset(queue);
            case "maxOffset":
                return producer.maxOffset(queue);
            case "searchOffset":
                return producer.searchOffset(queue, request.getLongValue("timestamp"));
            case "earliestTime":
                return producer.earliestMsgStoreTime(queue);
            case "view":
                return Records.writeAll(List.of(producer.viewMessage(topic, request.getString("id")))).get(0);
            case "query":
                List<MessageExt> found = producer.queryMessage(
                    topic, request.getString("key"), 32, 0, System.currentTimeMillis() + WITHIN_MS).getMessageList();
                return Records.writeAll(found);
            default:
                throw new IllegalArgumentException(call);
        }
    }

    private SendResult send(JSONObject json) throws Exception {
        Message message = Produce.message(json);
        if (json.getString("shardingKey") != null) {
            return producer.send(message, new SelectMessageQueueByHash(), json.getString("shardingKey"));
        }
        return json.getString("broker") == null
            ? producer.send(message) : producer.send(message, Clients.queue(json));
    }

    private SendResult sendAsync(Message message) throws Exception {
        CompletableFuture<SendResult> done = new CompletableFuture<>();
        producer.send(message, new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                done.complete(result);
            }

            @Override
            public void onException(Throwable error) {
                done.completeExceptionally(error);
            }
        });
        return done.get(WITHIN_MS, TimeUnit.MILLISECONDS);
    }

    /**
     * Asks by a callback and to a queue: without a queue, and without a callback, requests of 5.3.3 fail as soon as they
     * are sent.
     */
    private Message request(JSONObject json) throws Exception {
        CompletableFuture<Message> done = new CompletableFuture<>();
        producer.request(Produce.message(json), Clients.queue(json), new RequestCallback() {
            @Override
            public void onSuccess(Message reply) {
                done.complete(reply);
            }

            @Override
            public void onException(Throwable error) {
                done.completeExceptionally(error);
            }
        }, WITHIN_MS);
        return done.get(WITHIN_MS, TimeUnit.MILLISECONDS);
    }

    private static List<Message> messages(JSONArray all) {
        return all.stream().map(one -> Produce.message((JSONObject) one)).collect(Collectors.toCollection(ArrayList::new));
    }

    private static JSONObject write(SendResult result) {
        JSONObject written = new JSONObject(true);
        Produce.write(result, written);
        return written;
    }

    /** The property states has the states of a transaction, with blanks between them. The last one stays. */
    private static final class AsTheMessageSays implements TransactionListener {
        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            return state(message, 0);
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            String checks = message.getProperty("TRANSACTION_CHECK_TIMES");
            return state(message, checks == null ? 1 : Integer.parseInt(checks));
        }

        private static LocalTransactionState state(Message message, int number) {
            String[] states = message.getUserProperty("states").split(" ");
            return LocalTransactionState.valueOf(states[Math.min(number, states.length - 1)]);
        }
    }
}
