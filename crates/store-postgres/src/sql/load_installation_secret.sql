-- Loads the secret of the installation.
SELECT secret FROM taskqueue.installation_secret WHERE one = 1;
