"""Attacks on a broker beside a healthy client of Java's: what its sends take meanwhile, what the broker keeps."""
