"""Attacks on a broker beside a healthy Java client: how long its sends take meanwhile, and what the broker keeps."""
