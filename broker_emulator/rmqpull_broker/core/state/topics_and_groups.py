"""The look-up of topics and groups, which the state and drafts share."""

from __future__ import annotations

import abc

from rmqpull_broker.core.errors import ConsumerGroupNotFound, TopicNotFound
from rmqpull_broker.core.model import GroupConfig, TopicConfig


class TopicsAndGroups(abc.ABC):
    """Topics and groups by name: as they are, or as they will be after the commands of a draft."""

    @abc.abstractmethod
    def find_topic(self, name: str) -> TopicConfig | None:
        """Returns the topic of that name, system topics included, or None."""

    @abc.abstractmethod
    def find_group(self, name: str) -> GroupConfig | None:
        """Returns the group of that name, or None."""

    def require_topic(self, name: str) -> TopicConfig:
        """Returns the topic of that name. Raises TopicNotFound."""
        topic = self.find_topic(name)
        if topic is None:
            raise TopicNotFound(f"topic[{name}] not exist, apply first please!")
        return topic

    def require_group(self, name: str) -> GroupConfig:
        """Returns the group of that name. Raises ConsumerGroupNotFound."""
        group = self.find_group(name)
        if group is None:
            raise ConsumerGroupNotFound(f"Group {name} not exist!")
        return group
