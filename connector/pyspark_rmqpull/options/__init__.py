"""The options that users set: declarations by subject, their parsers, and what contradicts what.

``declaration`` says how an option is declared. ``connection``, ``selection``, ``progress``, ``micro_batch`` and
``allocation`` declare those of the source, ``connection`` and ``sending`` those of the sink; ``source`` and ``sink``
put them together. ``cross_checks`` lists which options contradict each other.
"""
