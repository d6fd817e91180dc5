"""What a platform can do about it, at the four places where it can act: data, training, embeddings, lists."""
