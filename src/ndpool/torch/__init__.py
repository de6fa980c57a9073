from . import operators
