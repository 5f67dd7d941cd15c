-- Saves the secret of the installation, unless there is one.
INSERT INTO taskqueue.installation_secret (one, secret) VALUES (1, $1) ON CONFLICT (one) DO NOTHING;
