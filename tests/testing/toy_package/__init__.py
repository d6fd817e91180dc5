"""A package that adds a defense, two attacks and a model to recveil, as other people's packages do."""
