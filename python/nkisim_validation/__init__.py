"""What `nkisim validate` and `nkisim calibrate` run: simulations held against measurements."""
