"""What benchmarks and pages need of Apache's gRPC clients: a program in Java, and what the libraries cannot do."""
