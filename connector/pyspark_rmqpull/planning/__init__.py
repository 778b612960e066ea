"""What a query reads, and how the driver plans micro-batches: rules without connections, threads or clocks."""
