"""The same random requests to the emulator and to a real Apache RocketMQ: their answers are the same.

A sequence of steps is made from a seed (``generator``), sent to both servers (``runner``), and each answer is compared
field by field (``comparison``, with the table of what may differ, and why). A sequence with a difference is cut down to
the shortest one that still has it (``shrinking``).

    python -m tests.differential --seeds 1:500      # starts both servers; prints the shortest sequence of each finding
"""
