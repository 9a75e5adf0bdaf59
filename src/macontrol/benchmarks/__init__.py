"""What macontrol measures of itself. The numbers only; the `bench` commands print them."""
