-- Loads the secret of the installation.
SELECT secret FROM installation_secret WHERE one = 1;
