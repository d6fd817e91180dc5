"""The invented documents, as fixtures."""

from documents import *  # noqa: F403
