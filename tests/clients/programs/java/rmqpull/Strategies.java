package rmqpull;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * The strategies by which members of a group share queues. A request names one with "strategy": circle, hash, config
 * (with "queues": [[topic, broker, queue], ...], those of this member) or nearby (with "rooms": the room of each broker by
 * its name, and that of each member by its instance name). By default it is AllocateMessageQueueAveragely.
 */
final class Strategies {
    private Strategies() {}

    static AllocateMessageQueueStrategy make(JSONObject request) {
        switch (request.getOrDefault("strategy", "averagely").toString()) {
            case "averagely":
                return new AllocateMessageQueueAveragely();
            case "circle":
                return new AllocateMessageQueueAveragelyByCircle();
            case "hash":
                return new AllocateMessageQueueConsistentHash();
            case "config":
                AllocateMessageQueueByConfig configured = new AllocateMessageQueueByConfig();
                configured.setMessageQueueList(queues(request.getJSONArray("queues")));
                return configured;
            case "nearby":
                return new AllocateMachineRoomNearby(
                    new AllocateMessageQueueAveragely(), new Rooms(request.getJSONObject("rooms")));
            default:
                throw new IllegalArgumentException("strategy " + request.getString("strategy"));
        }
    }

    static List<MessageQueue> queues(JSONArray all) {
        List<MessageQueue> queues = new ArrayList<>();
        for (int i = 0; i < all.size(); i++) {
            JSONArray one = all.getJSONArray(i);
            queues.add(new MessageQueue(one.getString(0), one.getString(1), one.getIntValue(2)));
        }
        return queues;
    }

    /** Finds rooms in a table. A client id is an address, "@" and an instance name. */
    private static final class Rooms implements AllocateMachineRoomNearby.MachineRoomResolver {
        private final JSONObject rooms;

        Rooms(JSONObject rooms) {
            this.rooms = rooms;
        }

        @Override
        public String brokerDeployIn(MessageQueue queue) {
            return rooms.getString(queue.getBrokerName());
        }

        @Override
        public String consumerDeployIn(String clientId) {
            return rooms.getString(clientId.split("@")[1]);
        }
    }
}
