"""FedAvg across silos: the system that promises nothing."""
