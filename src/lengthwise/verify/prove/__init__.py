"""Methods that find what a certificate holds, or say in one sentence why they do not."""
