package rmqpull;

import java.io.BufferedReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * Publishes each line of a file as a message: tag, keys and body, with a tab between them. Sends them in batches with
 * DefaultMQProducer, and prints the number of messages after each batch that the broker has stored.
 *
 * <p>usage: PublishLines NAME_SERVERS TOPIC FILE MESSAGES_PER_BATCH
 */
public final class PublishLines {
    public static void main(String[] arguments) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("publish-lines");
        producer.setNamesrvAddr(arguments[0]);
        int status = 1;
        try (BufferedReader lines = Files.newBufferedReader(Path.of(arguments[2]))) {
            producer.start();
            send(producer, arguments[1], lines, Integer.parseInt(arguments[3]));
            status = 0;
        } catch (Exception error) {
            error.printStackTrace();
        }
        System.exit(status); // shutdown() takes seconds, and nothing is left to send
    }

    private static void send(DefaultMQProducer producer, String topic, BufferedReader lines, int perBatch)
            throws Exception {
        List<Message> batch = new ArrayList<>();
        String line = lines.readLine();
        while (line != null) {
            String[] parts = line.split("\t", 3);
            batch.add(new Message(topic, parts[0], parts[1], parts[2].getBytes(StandardCharsets.UTF_8)));
            line = lines.readLine();
            if (batch.size() == perBatch || line == null) {
                SendResult result = producer.send(batch);
                if (result.getSendStatus() != SendStatus.SEND_OK) {
                    throw new IllegalStateException("The broker has not stored a batch: " + result);
                }
                System.out.println(batch.size());
                batch.clear();
            }
        }
    }
}
