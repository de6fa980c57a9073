from .reprs import brief as brief
