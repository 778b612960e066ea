"""Random changes of topics and groups, and queries about them."""

from __future__ import annotations

from random import Random

from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.json_dialect import write_json
from tests.differential.names import choose_group, choose_topic, write_flag
from tests.differential.steps import OWN, Step


def put_topic(random: Random) -> Step:
    """A new or changed topic."""
    queues = random.choice(("1", "2", "2", "4"))  # the broker refuses topics without queues
    fields = {
        "topic": random.choices((choose_topic(random), f"{OWN}later", "TBW102", "SELF_TEST_TOPIC"), (4, 4, 1, 1))[0],
        "defaultTopic": "TBW102",
        "readQueueNums": queues,
        "writeQueueNums": random.choice((queues, queues, "1", "3")),
        "perm": random.choice(("6", "6", "6", "4", "2", "0", "7")),
        "topicFilterType": random.choice(("SINGLE_TAG", "SINGLE_TAG", "SINGLE_TAG", "x")),  # MULTI_TAG is not kept
        "topicSysFlag": "0",
        "order": write_flag(random.random() < 0.1),
    }
    if random.random() < 0.3:
        fields["attributes"] = random.choice(
            ("+message.type=FIFO", "+message.type=NORMAL", "+message.type=MIXED", "+message.type=x", "x", "+a=b", "")
        )
    return Step("put a topic", RequestCode.UPDATE_AND_CREATE_TOPIC, fields)


def delete_topic(random: Random) -> Step:
    """The end of a topic."""
    return Step("delete a topic", RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": choose_topic(random)})


def put_group(random: Random) -> Step:
    """A new or changed group."""
    body = {
        "groupName": choose_group(random),
        "consumeEnable": random.random() < 0.9,
        "consumeBroadcastEnable": random.random() < 0.7,
        "retryQueueNums": random.choice((1, 1, 2, 0)),
        "retryMaxTimes": random.choice((16, 16, 0, 1, -1)),
        "notifyConsumerIdsChangedEnable": random.random() < 0.8,
        "consumeMessageOrderly": random.random() < 0.1,
    }
    text = write_json(body).decode() if random.random() < 0.95 else random.choice(("", "{}", "[]", "{", "x"))
    return Step("put a group", RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, text)


def delete_group(random: Random) -> Step:
    """The end of a group."""
    fields = {"groupName": choose_group(random)}
    if random.random() < 0.5:
        fields["cleanOffset"] = write_flag(random.random() < 0.5)
    return Step("delete a group", RequestCode.DELETE_SUBSCRIPTIONGROUP, fields)


def show_topic(random: Random) -> Step:
    """What a broker says about a topic."""
    code = random.choice(
        (RequestCode.GET_TOPIC_CONFIG, RequestCode.GET_TOPIC_STATS_INFO, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO)
    )
    return Step("show a topic", code, {"topic": choose_topic(random)})


def show_group(random: Random) -> Step:
    """What a broker says about a group."""
    group = choose_group(random)
    return random.choice(
        (
            Step("show a group", RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": group}),
            Step("show connections", RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group}),
            Step("show progress", RequestCode.GET_CONSUME_STATS, {"consumerGroup": group}),
            Step(
                "show progress", RequestCode.GET_CONSUME_STATS, {"consumerGroup": group, "topic": choose_topic(random)}
            ),
        )
    )


def find_route(random: Random) -> Step:
    """The route of a topic."""
    fields = {"topic": choose_topic(random)}
    fields |= {"acceptStandardJsonOnly": "true"} if random.random() < 0.3 else {}
    return Step("find a route", RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)


def ask_the_unknown(random: Random) -> Step:
    """A request that no server knows."""
    return Step("ask the unknown", random.choice((0, 9, 31_998, -1, 9_999)), {"a": "b"})


KINDS = {
    put_topic: 4,
    delete_topic: 1,
    put_group: 3,
    delete_group: 1,
    show_topic: 3,
    show_group: 3,
    find_route: 2,
    ask_the_unknown: 1,
}
