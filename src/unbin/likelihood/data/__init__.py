"""What was published, laid out as statistics that are stacked."""
