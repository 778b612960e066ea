"""One module per RPC of the admin service, as for the other services."""
