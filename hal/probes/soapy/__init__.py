"""A local radio through SoapySDR."""
