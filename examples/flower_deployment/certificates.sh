#!/usr/bin/env bash
# The server's operator, once: a certificate authority, and the server's certificate for HOST.
# Every site gets certs/ca.crt and nothing else of this folder.
set -euo pipefail
source "$(dirname "$0")/settings.sh"
mkdir -p "$WORK/certs" && cd "$WORK/certs" && umask 077
# Made anew, it would lock out every site that has the old ca.crt.
[ ! -e ca.key ] || { echo "$WORK/certs has its authority already: delete ca.key to replace it" >&2 && exit 1; }
case $HOST in *[!0-9.]*) NAME=DNS:$HOST ;; *) NAME=IP:$HOST ;; esac
printf '[ext]\nsubjectAltName = %s,DNS:localhost,IP:127.0.0.1\n' "$NAME" >san.conf
openssl ecparam -name prime256v1 -genkey -noout -out ca.key
openssl req -new -x509 -key ca.key -sha256 -subj "/O=PACE CA" -days 365 -out ca.crt
openssl ecparam -name prime256v1 -genkey -noout -out server.key
openssl req -new -key server.key -subj "/CN=$HOST" -out server.csr
openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out server.pem \
  -days 365 -sha256 -extfile san.conf -extensions ext 2>/dev/null
chmod 644 ca.crt server.pem
