"""Converts protobuf messages to and from the core's types, and errors to status codes. Also addresses and limits, which
both protocols use.
"""
