"""What it costs: price book, capex, opex, cloud and hosted-API comparison, break-even."""
