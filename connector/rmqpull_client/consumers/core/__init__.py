"""What consumers decide, without sockets, threads and clocks."""
