"""TFX components of our own, a folder each, where no standard one does the job."""
