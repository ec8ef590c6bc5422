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
from pace.io import atomic
from pace.jobs import SERVER, read_job
from pace_network.node import read_settings

PRIVATE = ("ca.key", "tls.key", "secret", "node")  # for their owner's eyes only
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
        raise SettingError("this job lists nobody: make one with `pace new --participant …`")
    if SERVER in agreed.participants:
        raise SettingError(f"a participant is called {SERVER!r}, which is the server's own folder")
    if out.exists():
        raise FileError(f"{out} already exists: choose another --out or move it")
    pems = certificates(host)
    common = {"job.pace": job.read_bytes(), "ca.crt": pems["ca.crt"]}
    texts = _texts(SERVER_TEXTS, name=SERVER, port=port)
    kits = {SERVER: common | pems | {"secret": token_bytes(32)} | texts}
    for index, name in enumerate(agreed.participants):
        private_key, public_key = node_key()
        kits[SERVER][f"nodes/{name}.pub"] = public_key
        key = NODE_KEY % name if agreed.signed else ""
        address = json.dumps(f"{host}:{port}")
        texts = _texts(SITE_TEXTS, name=name, address=address, key=key, port=node_port + index)
        kits[name] = common | {"node": private_key, "node.pub": public_key} | texts
    with atomic.new_folder(out) as staged:
        for name, files in kits.items():
            for file, content in files.items():
                atomic.write(staged / name / file, content, private=file in PRIVATE)
                if file.endswith(".sh"):
                    (staged / name / file).chmod(0o755)
    return list(agreed.participants)


def _texts(templates: Mapping[str, str], **words: object) -> dict[str, bytes]:
    return {file: template.format(**words).encode() for file, template in templates.items()}


def certificates(host: str) -> dict[str, bytes]:
    """A new authority, and its certificate for the server's name and for this machine; as PEM files."""
    if not (host and host.isascii()):
        raise SettingError(f"--host is {host!r}, expected a machine's name or address")
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
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


def node_key() -> tuple[bytes, bytes]:
    """A node's key as Flower takes it, as by `ssh-keygen -t ecdsa -b 384`: private, public."""
    key = ec.generate_private_key(ec.SECP384R1())
    public = key.public_key().public_bytes(forms.Encoding.OpenSSH, forms.PublicFormat.OpenSSH)
    return _pem(key, forms.PrivateFormat.OpenSSH), public + b"\n"


def public_pem(content: bytes) -> bytes:
    """A node's public key, as Flower registers it."""
    key = forms.load_ssh_public_key(content)
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
