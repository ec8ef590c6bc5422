"""Kits: a folder for the server and one for each site, with all that a deployment needs on Flower.

    kits/server/   job.pace, ca.crt, ca.key, tls.crt, tls.key, secret, nodes/NAME.pub,
                   server.toml, start.sh, check.sh, run.sh, pace-superlink.service
    kits/NAME/     job.pace, ca.crt, node, node.pub, node.toml,
                   start.sh, check.sh, pace-node.service

A site adds its graph and, where the job has keys, its own key: the maker of
the kit never has either. Paths are relative to the kit, so a folder works wherever it is put.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_bytes

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pace.errors import FileError, SettingError
from pace.io import atomic, untrusted
from pace.jobs import SERVER, check_name, read_job
from pace_network.node import read_settings

PRIVATE = ("ca.key", "tls.key", "secret", "node")  # for their owner's eyes only
CURVE = ec.SECP256R1()
LARGEST_KEY = 4096  # bytes of a node's public key
DAYS = 825  # of a certificate: the longest that common TLS clients accept
# What an authority's key is for; Python 3.13 refuses one that does not say so, as RFC 5280 asks.
SIGNS_CERTIFICATES = x509.KeyUsage(
    key_cert_sign=True,
    crl_sign=True,
    **dict.fromkeys(("digital_signature", "content_commitment", "key_encipherment"), False),
    **dict.fromkeys(("data_encipherment", "key_agreement"), False),
    **dict.fromkeys(("encipher_only", "decipher_only"), False),
)
Party = tuple[x509.Name, ec.EllipticCurvePrivateKey]
SCRIPT = """\
#!/usr/bin/env bash
# Made by `pace flower provision`. It needs `pace` with the extra `flower` on the PATH.
# %s
set -euo pipefail
cd "$(dirname "$0")"
exec pace flower %s "$@"
"""
UNIT = """\
# Made by `pace flower provision`: put the kit in /etc/pace/{name}, then
#   chown -R pace /etc/pace/{name}
#   systemctl enable --now /etc/pace/{name}/%s.service
[Unit]
Description=%s
After=network-online.target

[Service]
User=pace
Environment=PATH=/opt/pace/bin:/usr/bin:/bin
ExecStart=/etc/pace/{name}/start.sh
Restart=%s

[Install]
WantedBy=multi-user.target
"""
SERVER_TOML = """\
port = {port}  # that sites reach; the next one is the operator's, on this machine only
"""
NODE_TOML = """\
name = "{name}"
superlink = {address}  # the server
graph = "mine.graph"  # this site's own graph: `pace graph import` makes it
{key}limit = 3600.0  # seconds for one step; then its process is ended
device = "cpu"
port = {port}  # of the node's local API: nodes on one machine need different ones
"""
NODE_KEY = 'key = "%s.key"  # this site\'s own private key, as `pace keys new` made it\n'
SERVES = "The server: Flower's SuperLink with TLS, which lets these nodes in."
JOINS = "This site's node: it uploads once and adopts once, when the server asks."
CHECKS = "What would keep this site from taking part, before the server asks."
SERVER_TEXTS = {
    "server.toml": SERVER_TOML,
    "start.sh": SCRIPT % (SERVES, "superlink"),
    "check.sh": SCRIPT % ("Whether the server answers, and who has ever joined.", "status"),
    "run.sh": SCRIPT % ("The round: ask every site, merge, send each its return.", "run"),
    "pace-superlink.service": UNIT % ("pace-superlink", "Flower SuperLink for PACE", "on-failure"),
}
SITE_TEXTS = {
    "node.toml": NODE_TOML,
    "start.sh": SCRIPT % (JOINS, "node node.toml"),
    "check.sh": SCRIPT % (CHECKS, "node node.toml --check"),
    "pace-node.service": UNIT % ("pace-node", "PACE node of {name}", "always\nRestartSec=5"),
}


@dataclass(frozen=True)
class ServerKit:
    """The server's folder."""

    port: int  # where sites reach the server; the next one is the operator's, on loopback
    folder: Path = Path()

    @classmethod
    def read(cls, folder: Path) -> ServerKit:
        """The kit in a folder, by its server.toml."""
        return replace(read_settings(cls, folder / "server.toml"), folder=folder)

    @property
    def control(self) -> str:
        """The address of the SuperLink for its operator."""
        return f"127.0.0.1:{self.port + 1}"


def provision(
    job: Path, host: str, out: Path, *, port: int = 18080, node_port: int = 9094
) -> list[str]:
    """Write the kits of a job's participants; their names.

    The next `port` is the operator's, and nodes have local APIs from `node_port` on, all on loopback.
    """
    agreed = read_job(job)
    if not agreed.participants:
        raise SettingError("no participants are listed: make a job with `pace new --participant …`")
    if SERVER in agreed.participants:
        raise SettingError(f"a participant is called {SERVER!r}, which is the server's own folder")
    if out.exists():
        raise FileError(f"{out} already exists: choose another --out or move it")
    pems = certificates(host)
    common = {"job.pace": job.read_bytes(), "ca.crt": pems["ca.crt"]}
    texts = _texts(SERVER_TEXTS, name=SERVER, port=port)
    kits = {SERVER: common | pems | {"secret": token_bytes(32)} | texts}
    for index, name in enumerate(agreed.participants):
        settings = _site_texts(name, f"{host}:{port}", node_port + index, signed=agreed.signed)
        kits[name] = common | node_key() | settings
        kits[SERVER][f"nodes/{name}.pub"] = kits[name]["node.pub"]
    with atomic.new_folder(out) as staged:
        for name, files in kits.items():
            _write_kit(staged / name, files)
    return list(agreed.participants)


def add_site(
    job: Path, out: Path, name: str, public: Path | None = None, *, node_port: int = 9094
) -> Path:
    """Write one more site's kit beside the server's, whose authority stays; the node's public key there.

    With `public`, the site made its node's key itself, and its kit has none.
    """
    server, agreed = ServerKit.read(out / SERVER), read_job(job)
    check_name(name, "--add")
    registered = server.folder / "nodes" / f"{name}.pub"
    if name == SERVER or registered.exists() or (out / name).exists():
        raise FileError(
            f"{name!r} has a kit in {out}: `pace flower register` lets another key of a site in"
        )
    keys = node_key()
    if public is not None:
        keys = {"node.pub": untrusted.read(public, LARGEST_KEY)}
        public_pem(keys["node.pub"])
    port = node_port + len(list(server.folder.glob("nodes/*.pub")))
    address = f"{_host(server.folder)}:{server.port}"
    common = {"job.pace": job.read_bytes(), "ca.crt": (server.folder / "ca.crt").read_bytes()}
    with atomic.new_folder(out / name) as staged:
        settings = _site_texts(name, address, port, signed=agreed.signed)
        _write_kit(staged, common | keys | settings)
    atomic.create(registered, keys["node.pub"])
    return registered


def renew(out: Path) -> list[Path]:
    """New certificates of the same authority, with its key, in the kits of this folder; the files.

    Nodes that have the authority's former certificate go on until its own date.
    """
    server = out / SERVER
    try:
        ca_key = forms.load_pem_private_key((server / "ca.key").read_bytes(), None)
        known = x509.load_pem_x509_certificate((server / "ca.crt").read_bytes()).public_key()
    except FileNotFoundError as error:
        raise FileError(
            f"{error.filename} not found: only the authority's own key can renew; restore it from a "
            "backup, or make new kits for everybody"
        ) from error
    except ValueError as error:
        raise FileError(f"the authority of {server} cannot be read ({error})") from error
    if not isinstance(ca_key, ec.EllipticCurvePrivateKey) or ca_key.public_key() != known:
        raise FileError(f"{server / 'ca.key'} is not the key of ca.crt: restore it from a backup")
    pems, written = certificates(_host(server), ca_key), []
    for path in sorted(out.glob("*/ca.crt")):
        atomic.write(path, pems["ca.crt"])
        written.append(path)
    for file in ("tls.key", "tls.crt"):
        atomic.write(server / file, pems[file], private=file in PRIVATE)
        written.append(server / file)
    return written


def _host(server: Path) -> str:
    """The server's name, as its certificate has it."""
    certificate = x509.load_pem_x509_certificate(untrusted.read(server / "tls.crt", 2**16))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return str(next(iter(names)).value)


def _site_texts(name: str, address: str, port: int, *, signed: bool) -> dict[str, bytes]:
    key = NODE_KEY % name if signed else ""
    return _texts(SITE_TEXTS, name=name, address=json.dumps(address), key=key, port=port)


def _write_kit(folder: Path, files: Mapping[str, bytes]) -> None:
    for file, content in files.items():
        atomic.write(folder / file, content, private=file in PRIVATE)
        if file.endswith(".sh"):
            (folder / file).chmod(0o755)


def _texts(templates: Mapping[str, str], **words: object) -> dict[str, bytes]:
    return {file: template.format(**words).encode() for file, template in templates.items()}


def certificates(host: str, ca_key: ec.EllipticCurvePrivateKey | None = None) -> dict[str, bytes]:
    """An authority, new without `ca_key`, and its certificate for the server; as PEM files."""
    if not (host and host.isascii()):
        raise SettingError(f"--host is {host!r}, expected a machine's name or address")
    ca_key, key = ca_key or ec.generate_private_key(CURVE), ec.generate_private_key(CURVE)
    ca = (x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "PACE CA")]), ca_key)
    server = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:64])]), key)
    hosts: list[x509.GeneralName] = []
    for name in dict.fromkeys((host, "localhost", "127.0.0.1")):
        try:
            hosts.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            hosts.append(x509.DNSName(name))
    authority = x509.BasicConstraints(ca=True, path_length=0), SIGNS_CERTIFICATES
    identity = x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key())
    leaf = x509.BasicConstraints(ca=False, path_length=None), x509.SubjectAlternativeName(hosts)
    issued = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    return {
        "ca.key": _pem(ca_key),
        "ca.crt": _certificate(ca, ca, *authority, identity),
        "tls.key": _pem(key),
        "tls.crt": _certificate(server, ca, *leaf, issued),
    }


def node_key() -> dict[str, bytes]:
    """A node's key as Flower takes it, as by `ssh-keygen -t ecdsa -b 384`: its two files."""
    key = ec.generate_private_key(ec.SECP384R1())
    public = key.public_key().public_bytes(forms.Encoding.OpenSSH, forms.PublicFormat.OpenSSH)
    return {"node": _pem(key, forms.PrivateFormat.OpenSSH), "node.pub": public + b"\n"}


def public_pem(content: bytes) -> bytes:
    """A node's public key, as Flower registers it."""
    try:
        key = forms.load_ssh_public_key(content)
    except ValueError as error:
        raise FileError(f"no public key of a node, as ssh-keygen writes it ({error})") from error
    return key.public_bytes(forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo)


def _certificate(subject: Party, issuer: Party, *extensions: x509.ExtensionType) -> bytes:
    """The issuer's certificate of the subject's name and key, as PEM."""
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject[0])
        .issuer_name(issuer[0])
        .public_key(subject[1].public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # clocks differ
        .not_valid_after(now + timedelta(days=DAYS))
    )
    for extension in extensions:
        critical = isinstance(extension, x509.BasicConstraints | x509.KeyUsage)
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(issuer[1], hashes.SHA256()).public_bytes(forms.Encoding.PEM)


def _pem(
    key: ec.EllipticCurvePrivateKey, form: forms.PrivateFormat = forms.PrivateFormat.PKCS8
) -> bytes:
    return key.private_bytes(forms.Encoding.PEM, form, forms.NoEncryption())
