package rmqpull;

import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.util.ArrayDeque;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.ProducerBuilder;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/**
 * A producer. Options: topics, checker (COMMIT, ROLLBACK or UNKNOWN: what it answers when a server asks for the fate of a
 * half message; a producer of transactions needs it). Calls:
 *
 * <pre>
 * send topic body ... -> {"messageId", "recallHandle"}
 * send topic count ... -> a list of these; the bodies are body-0, body-1, ...
 * recall topic handle -> {"messageId"}
 * </pre>
 *
 * <p>With transaction (COMMIT, ROLLBACK, or UNKNOWN: do neither) a message is sent as a half message.
 */
final class ProducerClient implements Clients.Client {
    private static final int IN_FLIGHT_MAX = 32;
    private final Producer producer;

    ProducerClient(JSONObject request) throws Exception {
        ProducerBuilder builder = Clients.PROVIDER.newProducerBuilder();
        builder.setClientConfiguration(Clients.configure(request));
        JSONArray topics = request.getJSONArray("topics");
        if (topics != null) {
            builder.setTopics(topics.toArray(new String[0]));
        }
        String checker = request.getString("checker");
        if (checker != null) {
            TransactionResolution resolution = TransactionResolution.valueOf(checker);
            builder.setTransactionChecker(message -> resolution);
        }
        producer = builder.build();
    }

    @Override
    public Object call(String call, JSONObject request) throws Exception {
        switch (call) {
            case "send":
                return request.containsKey("count") ? sendMany(request) : sendOne(request, request.getString("body"));
            case "recall":
                return JSONObject.of(
                    "messageId",
                    producer.recallMessage(request.getString("topic"), request.getString("handle")).getMessageId().toString());
            default:
                throw new Clients.Unsupported(call);
        }
    }

    @Override
    public void close() throws Exception {
        producer.close();
    }

    private JSONObject sendOne(JSONObject request, String body) throws Exception {
        Message message = Messages.build(request, body);
        String end = request.getString("transaction");
        if (end == null) {
            return write(producer.send(message));
        }
        Transaction transaction = producer.beginTransaction();
        SendReceipt receipt = producer.send(message, transaction);
        if (end.equals("COMMIT")) {
            transaction.commit();
        } else if (end.equals("ROLLBACK")) {
            transaction.rollback();
        }
        return write(receipt);
    }

    /** Sends messages: some at a time, or one after the other if their order matters. */
    private JSONArray sendMany(JSONObject request) throws Exception {
        boolean inOrder = request.containsKey("messageGroup") || request.containsKey("transaction");
        JSONArray receipts = new JSONArray();
        Queue<CompletableFuture<SendReceipt>> inFlight = new ArrayDeque<>();
        for (int number = 0; number < request.getIntValue("count"); number++) {
            String body = "body-" + number;
            if (inOrder) {
                receipts.add(sendOne(request, body));
                continue;
            }
            if (inFlight.size() == IN_FLIGHT_MAX) {
                receipts.add(write(inFlight.remove().get()));
            }
            inFlight.add(producer.sendAsync(Messages.build(request, body)));
        }
        for (CompletableFuture<SendReceipt> receipt : inFlight) {
            receipts.add(write(receipt.get()));
        }
        return receipts;
    }

    private static JSONObject write(SendReceipt receipt) {
        JSONObject written = JSONObject.of("messageId", receipt.getMessageId().toString());
        String handle = receipt.getRecallHandle();
        if (handle != null && !handle.isEmpty()) {
            written.put("recallHandle", handle);
        }
        return written;
    }
}
