"""Headers and bodies of requests that only a server reads, and of responses that only it writes."""
