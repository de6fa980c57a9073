"""`brief`, under the name that `graph` imports it by."""

from .reprs import brief as brief
