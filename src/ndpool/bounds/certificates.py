class Certificate: pass
