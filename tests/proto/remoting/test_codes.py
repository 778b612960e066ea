"""The codes have RocketMQ's numbers."""

from rmqpull_proto.remoting.codes import LanguageCode, RequestCode, ResponseCode


def test_numbers_of_codes() -> None:
    assert [RequestCode(n).name for n in (11, 105, 310, 361)] == [
        "PULL_MESSAGE",
        "GET_ROUTEINFO_BY_TOPIC",
        "SEND_MESSAGE_V2",
        "LITE_PULL_MESSAGE",
    ]
    assert [ResponseCode(n).name for n in (2, 17, 26)] == [
        "SYSTEM_BUSY",
        "TOPIC_NOT_EXIST",
        "SUBSCRIPTION_GROUP_NOT_EXIST",
    ]
    assert (LanguageCode.JAVA, LanguageCode.PYTHON) == (0, 3)
