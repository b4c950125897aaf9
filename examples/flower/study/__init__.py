"""An ordinary study with Flower."""
