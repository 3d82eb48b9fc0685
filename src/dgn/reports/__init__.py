"""What runs leave behind: result files, tables beside the paper's, curves."""
