#![allow(clippy::unwrap_used, reason = "in a test a failure is a panic")]

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConnection, ServerConfig, ServerConnection, SupportedProtocolVersion};
use taskqueue_test_postgres::{Cluster, Database};
use tempfile::TempDir;

use super::*;
use crate::open::tests::connector;

/// Access as it comes, except that one role shows a certificate.
const ACCESS: &str =
    "hostssl all certified 127.0.0.1/32 cert\nlocal all postgres trust\nhost all postgres 127.0.0.1/32 trust
host all all 127.0.0.1/32 scram-sha-256";

/// What `openssl x509 -req` makes in PostgreSQL's manual, with older OpenSSL: X.509 version 1. For tests only.
const FIRST_VERSION: &str = "-----BEGIN CERTIFICATE-----
MIIBHjCBxAIUfCgnsylkkrzpSnSIkKUkwCJhmbswCgYIKoZIzj0EAwIwDTELMAkG
A1UEAwwCY2EwIBcNMjYxMTE1MDYxOTE3WhgPMjEyNjEwMjIwNjE5MTdaMBQxEjAQ
BgNVBAMMCWxvY2FsaG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABAasdFV2
oS1yf+6YK9W7dXDnEA9nbf1QxbMVu6PIP6Uqz4ggWWdluveoygqXq62uJP5CpRag
jkmLdnLPY7Z9W94wCgYIKoZIzj0EAwIDSQAwRgIhANhERWoxvoWxCF+Y5jAJa1Ex
CUq5GjUH41X4lb4CNi7QAiEA2VNZsqi2zQZow/GmWgci8Hjv4o3oIm0EiIHOnHsY
Kt8=
-----END CERTIFICATE-----";
const FIRST_VERSION_KEY: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgZmLdOZ7azIQtYnPp
3Dgny9oL33e+xr/LmOfcldmulgOhRANCAAQGrHRVdqEtcn/umCvVu3Vw5xAPZ239
UMWzFbujyD+lKs+IIFlnZbr3qMoKl6utriT+QqUWoI5Ji3Zyz2O2fVve
-----END PRIVATE KEY-----";

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let (key, mut params) = (KeyPair::generate().unwrap(), CertificateParams::default());
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate and its key, for a host or (as common name) for a role.
    fn certify(&self, name: &str) -> (String, String) {
        let (key, mut params) = (KeyPair::generate().unwrap(), CertificateParams::new([name.to_owned()]).unwrap());
        params.distinguished_name.push(DnType::CommonName, name);
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

/// A server with TLS and the files of a client.
struct Secured {
    database: Database,
    files: TempDir,
    _cluster: Cluster,
}

impl Secured {
    fn new(certificate: &str, key: &str, authority: &str) -> Self {
        let cluster = Cluster::private();
        let database = cluster.database();
        for (name, text) in
            [("server.crt", certificate), ("server.key", key), ("root.crt", authority), ("pg_hba.conf", ACCESS)]
        {
            // The server writes them itself: it may run under another account.
            let lines = format!("SELECT unnest(string_to_array('{text}', chr(10)))");
            database.admin(&format!("COPY ({lines}) TO PROGRAM 'umask 077; cat > {name}'"));
        }
        cluster.configure("ssl_ca_file = 'root.crt'");
        cluster.configure("ssl = on");
        let files = tempfile::tempdir().unwrap();
        Self { database, files, _cluster: cluster }
    }

    /// With a certificate for localhost.
    fn by(authority: &Authority) -> Self {
        let (certificate, key) = authority.certify("localhost");
        Self::new(&certificate, &key, &authority.pem)
    }

    /// With a certificate for localhost that is signed by itself and marked as an authority, as PostgreSQL's manual makes one; and its
    /// file.
    fn by_itself(change: impl FnOnce(&mut CertificateParams)) -> (Self, String) {
        let (key, mut params) =
            (KeyPair::generate().unwrap(), CertificateParams::new(["localhost".to_owned()]).unwrap());
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut params);
        let own = params.self_signed(&key).unwrap().pem();
        let server = Self::new(&own, &key.serialize_pem(), &own);
        let file = server.file("root.pem", &own);
        (server, file)
    }

    /// Writes a file and gives its path.
    fn file(&self, name: &str, text: &str) -> String {
        let path = self.files.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn url(&self, host: &str, query: &str) -> String {
        format!("{}?{query}", self.database.url().replace("127.0.0.1", host))
    }

    /// Whether the connection is encrypted, or why there is none.
    async fn connect(&self, host: &str, query: &str) -> Result<bool, OpenError> {
        encrypted(&self.url(host, query)).await
    }
}

async fn encrypted(url: &str) -> Result<bool, OpenError> {
    let client = connector(url).open().await?;
    let question = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    Ok(client.query_one(question, &[]).await.unwrap().get(0))
}

fn is_tls(answer: &Result<bool, OpenError>, part: &str) -> bool {
    matches!(answer, Err(OpenError::Tls(_, why)) if why.contains(part))
}

#[tokio::test]
async fn each_mode_checks_what_libpq_checks() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let server = Secured::by(&authority);
    let (right, wrong) = (server.file("right.pem", &authority.pem), server.file("wrong.pem", &stranger.pem));
    // The certificate is for localhost, so 127.0.0.1 is the wrong name.
    for (host, query, expected) in [
        ("127.0.0.1", "", Ok(true)),
        ("127.0.0.1", "sslmode=disable", Ok(false)),
        ("127.0.0.1", "sslmode=prefer", Ok(true)),
        ("127.0.0.1", "sslmode=require", Ok(true)),
        ("127.0.0.1", &format!("sslmode=require&sslrootcert={right}"), Ok(true)),
        ("127.0.0.1", &format!("sslmode=require&sslrootcert={wrong}"), Err("invalid peer certificate")),
        ("127.0.0.1", &format!("sslmode=verify-ca&sslrootcert={right}"), Ok(true)),
        ("localhost", &format!("sslmode=verify-ca&sslrootcert={wrong}"), Err("invalid peer certificate")),
        ("localhost", &format!("sslmode=verify-full&sslrootcert={right}"), Ok(true)),
        ("localhost", &format!("sslmode=verify-full&sslrootcert={wrong}"), Err("invalid peer certificate")),
        ("127.0.0.1", &format!("sslmode=verify-full&sslrootcert={right}"), Err("not valid for name")),
        ("localhost", "sslmode=verify-full&sslrootcert=system", Err("UnknownIssuer")),
        ("localhost", "sslrootcert=system", Err("UnknownIssuer")),
        ("localhost", "sslmode=verify-full", Err("UnknownIssuer")),
    ] {
        let answer = server.connect(host, query).await;
        match expected {
            Ok(encrypted) => {
                assert_eq!(answer.unwrap_or_else(|error| panic!("{query}: {error}")), encrypted, "{query}")
            }
            Err(part) => assert!(is_tls(&answer, part), "{host} {query}: {answer:?}"),
        }
    }
    // Over the socket there is no TLS, whatever is asked for; with several hosts each is judged by its own name.
    assert!(!encrypted(&format!("{}?sslmode=require", server.database.socket_url())).await.unwrap());
    let port = server.database.url().rsplit(':').next().unwrap().split('/').next().unwrap().to_owned();
    let hosts = format!("127.0.0.1:{port},localhost");
    assert!(server.connect(&hosts, &format!("sslmode=verify-full&sslrootcert={right}")).await.unwrap());
}

#[tokio::test]
async fn a_password_is_bound_to_the_channel() {
    let authority = Authority::new();
    let server = Secured::by(&authority);
    let url = server.database.password_url("secret");
    assert!(encrypted(&format!("{url}?channel_binding=require&sslmode=require")).await.unwrap());
    let answer = encrypted(&format!("{url}?channel_binding=require&sslmode=disable")).await;
    assert!(matches!(answer, Err(OpenError::Refused(..))), "{answer:?}");
}

#[tokio::test]
async fn a_client_shows_its_certificate() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let server = Secured::by(&authority);
    server.database.admin("CREATE ROLE certified LOGIN");
    let identity = |name: &str, (certificate, key): (String, String)| {
        let certificate = server.file(&format!("{name}.crt"), &certificate);
        format!(
            "user=certified&sslmode=require&sslcert={certificate}&sslkey={}",
            server.file(&format!("{name}.key"), &key)
        )
    };
    assert!(server.connect("127.0.0.1", &identity("own", authority.certify("certified"))).await.unwrap());
    let other = server.connect("127.0.0.1", &identity("other", authority.certify("somebody"))).await;
    assert!(matches!(other, Err(OpenError::Refused(..))), "{other:?}");
    let none = server.connect("127.0.0.1", "user=certified&sslmode=require").await;
    assert!(matches!(none, Err(OpenError::Refused(..))), "{none:?}");
    let forged = server.connect("127.0.0.1", &identity("forged", stranger.certify("certified"))).await;
    assert!(forged.is_err());
}

#[tokio::test]
async fn a_server_may_show_the_very_certificate_that_is_trusted() {
    let (server, file) = Secured::by_itself(|_| {});
    assert!(server.connect("localhost", &format!("sslmode=verify-full&sslrootcert={file}")).await.unwrap());
    let answer = server.connect("127.0.0.1", &format!("sslmode=verify-full&sslrootcert={file}")).await;
    assert!(is_tls(&answer, "not valid for name"), "{answer:?}");
    let other = server.file("other.pem", &Authority::new().pem);
    let answer = server.connect("localhost", &format!("sslmode=verify-ca&sslrootcert={other}")).await;
    assert!(matches!(answer, Err(OpenError::Tls(..))), "{answer:?}");
}

#[tokio::test]
async fn a_certificate_that_has_expired_is_refused_even_if_it_is_the_trusted_one() {
    let (server, file) = Secured::by_itself(|params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
    let answer = server.connect("localhost", &format!("sslmode=verify-ca&sslrootcert={file}")).await;
    assert!(is_tls(&answer, "expired"), "{answer:?}");
    assert!(server.connect("localhost", "sslmode=require").await.unwrap());
}

#[tokio::test]
async fn a_certificate_of_the_first_version_is_taken_where_nothing_is_checked() {
    let server = Secured::new(FIRST_VERSION, FIRST_VERSION_KEY, FIRST_VERSION);
    assert!(server.connect("localhost", "").await.unwrap());
    let file = server.file("root.pem", &Authority::new().pem);
    let answer = server.connect("localhost", &format!("sslmode=verify-ca&sslrootcert={file}")).await;
    assert!(is_tls(&answer, "UnsupportedCertVersion"), "{answer:?}");
}

#[tokio::test]
async fn a_server_without_tls_is_taken_only_where_tls_is_not_required() {
    let database = Cluster::shared().database();
    assert!(!encrypted(&format!("{}?sslmode=prefer", database.url())).await.unwrap());
    let answer = encrypted(&format!("{}?sslmode=require", database.url())).await;
    assert!(is_tls(&answer, "server does not support TLS"), "{answer:?}");
}

#[test]
fn files_that_are_of_no_use_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let (authority, (empty, missing)) = (Authority::new(), (empty.display().to_string(), "nowhere.pem".to_owned()));
    let (certificate, _) = authority.certify("certified");
    let (good, other) = (folder.path().join("good.crt"), folder.path().join("other.key"));
    std::fs::write(&good, certificate).unwrap();
    std::fs::write(&other, KeyPair::generate().unwrap().serialize_pem()).unwrap();
    let (good, other) = (good.display().to_string(), other.display().to_string());
    for (query, parameter) in [
        (format!("sslmode=verify-ca&sslrootcert={missing}"), "sslrootcert"),
        (format!("sslmode=require&sslrootcert={empty}"), "sslrootcert"),
        (format!("sslcert={empty}&sslkey={other}"), "sslcert"),
        (format!("sslcert={good}&sslkey={missing}"), "sslkey"),
        (format!("sslcert={good}&sslkey={empty}"), "sslkey"),
        (format!("sslcert={good}&sslkey={other}"), "sslkey"),
    ] {
        let address = Address::parse(&format!("postgres://db?{query}")).unwrap();
        let error = super::connector(&address).err().unwrap();
        assert!(matches!(error, OpenError::Certificate(name, ..) if name == parameter), "{query}: {error:?}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}

/// Shows one certificate and signs with the key of another.
#[derive(Debug)]
struct Impostor(Arc<CertifiedKey>);

impl ResolvesServerCert for Impostor {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

/// What a client of ours says to a server that shows `certificate` and holds `key`.
fn handshake(certificate: &str, key: &str, version: &'static SupportedProtocolVersion) -> Result<(), Error> {
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let key = ring::sign::any_supported_type(&PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap()).unwrap();
    let server = ServerConfig::builder_with_provider(ring::default_provider().into());
    let server = server.with_protocol_versions(&[version]).unwrap().with_no_client_auth();
    let server = server.with_cert_resolver(Arc::new(Impostor(CertifiedKey::new(chain, key).into())));
    let mut server = ServerConnection::new(server.into()).unwrap();
    let client = client_config(&Address::parse("postgres://localhost?sslmode=require").unwrap()).unwrap();
    let mut client = ClientConnection::new(client.into(), "localhost".try_into().unwrap()).unwrap();
    while client.is_handshaking() {
        let mut wire = Vec::new();
        client.write_tls(&mut wire).unwrap();
        server.read_tls(&mut wire.as_slice()).unwrap();
        server.process_new_packets().unwrap();
        wire.clear();
        server.write_tls(&mut wire).unwrap();
        client.read_tls(&mut wire.as_slice()).unwrap();
        client.process_new_packets()?;
    }
    Ok(())
}

#[test]
fn a_server_without_the_key_of_its_certificate_is_refused_even_where_nothing_is_checked() {
    let (certificate, own) = Authority::new().certify("localhost");
    let other = KeyPair::generate().unwrap().serialize_pem();
    for version in [&TLS12, &TLS13] {
        handshake(&certificate, &own, version).unwrap();
        let error = handshake(&certificate, &other, version).unwrap_err();
        assert_eq!(error, Error::InvalidCertificate(CertificateError::BadSignature), "{version:?}");
    }
    handshake(FIRST_VERSION, FIRST_VERSION_KEY, &TLS13).unwrap();
    let error = handshake(FIRST_VERSION, &other, &TLS13).unwrap_err();
    assert_eq!(error, Error::InvalidCertificate(CertificateError::BadSignature));
}
