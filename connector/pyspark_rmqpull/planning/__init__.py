"""What a micro-batch or a batch read covers, decided on the driver. Pure: asks through ports, keeps no connection."""
