"""Checks on certificates that a user gives."""

from cryptography import x509


def certificate_problem(pem: str) -> str | None:
    """Return why a text is not one or more certificates in PEM form, or None. Never anything of the text."""
    if "PRIVATE KEY" in pem:
        return "holds a private key: give the certificate alone, and treat the key as known to others"
    try:
        x509.load_pem_x509_certificates(pem.encode())
    except ValueError:
        return "must be a certificate in PEM form, from -----BEGIN CERTIFICATE----- to -----END CERTIFICATE-----"
    return None


def certificate(pem: str) -> str:
    """Return one or more certificates in PEM form; ValueError when the text is none."""
    problem = certificate_problem(pem)
    if problem:
        raise ValueError(problem)
    return pem
