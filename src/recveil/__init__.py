"""recveil: can an outsider guess who your users are, and what to do about it."""
