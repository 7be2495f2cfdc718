//! Addresses and networks.

use std::net::IpAddr;

use super::CallResult;
use crate::address;
use crate::declarations::Function;
use crate::error::Fault;
use crate::quote::quoted;
use crate::value::{Cidr, Value};

pub(super) fn call<'a>(function: Function, arguments: &[Value<'a>]) -> CallResult<'a> {
    use Function as F;
    Some(match (function, arguments) {
        (F::Ip, [Value::String(text)]) => parse_ip(text).map(Value::Ip).map_err(Fault::text),
        (F::Ip, [Value::Cidr(cidr)]) => Ok(Value::Ip(cidr.address)),
        (F::IsIp, [Value::String(text)]) => Ok(Value::Bool(parse_ip(text).is_ok())),
        (F::IsCanonicalIp, [Value::String(text)]) => parse_ip(text)
            .map(|address| Value::Bool(address.to_string() == **text))
            .map_err(Fault::text),
        (F::Cidr, [Value::String(text)]) => parse_cidr(text).map(Value::Cidr).map_err(cidr_error),
        (F::IsCidr, [Value::String(text)]) => Ok(Value::Bool(parse_cidr(text).is_ok())),
        (F::PrefixLength, [Value::Cidr(cidr)]) => Ok(Value::Int(cidr.bits.into())),
        (F::Masked, [Value::Cidr(cidr)]) => Ok(Value::Cidr(masked(*cidr))),
        (F::ContainsIp, [Value::Cidr(cidr), Value::Ip(address)]) => {
            Ok(Value::Bool(contains(*cidr, *address)))
        }
        (F::ContainsIp, [Value::Cidr(cidr), Value::String(text)]) => match parse_ip(text) {
            Ok(address) => Ok(Value::Bool(contains(*cidr, address))),
            // The reference loses what was wrong with the text.
            Err(_) => Err(Fault::NO_OVERLOAD),
        },
        (F::ContainsCidr, [Value::Cidr(cidr), Value::Cidr(other)]) => {
            Ok(Value::Bool(contains_cidr(*cidr, *other)))
        }
        (F::ContainsCidr, [Value::Cidr(cidr), Value::String(text)]) => parse_cidr(text)
            .map(|other| Value::Bool(contains_cidr(*cidr, other)))
            .map_err(cidr_error),
        (_, [Value::Ip(address)]) => return of_address(function, *address),
        _ => return None,
    })
}

fn of_address<'a>(function: Function, address: IpAddr) -> CallResult<'a> {
    use Function as F;
    let is_link_local_unicast = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    };
    Some(Ok(Value::Bool(match function {
        F::Family => return Some(Ok(Value::Int(if address.is_ipv4() { 4 } else { 6 }))),
        F::IsUnspecified => address.is_unspecified(),
        F::IsLoopback => address.is_loopback(),
        F::IsLinkLocalUnicast => is_link_local_unicast,
        F::IsLinkLocalMulticast => match address {
            IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
            IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
        },
        F::IsGlobalUnicast => {
            let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
            !is_broadcast
                && !address.is_unspecified()
                && !address.is_loopback()
                && !address.is_multicast()
                && !is_link_local_unicast
        }
        _ => return None,
    })))
}

fn parse_ip(text: &str) -> Result<IpAddr, String> {
    let quoted = quoted(text);
    match address::parse(text) {
        Err(problem) => Err(format!(
            "IP Address {quoted} parse error during conversion from string: ParseAddr({quoted}): {problem}"
        )),
        Ok((_, Some(_))) => Err(format!("IP address {quoted} with zone value is not allowed")),
        Ok((IpAddr::V6(v6), None)) if v6.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {quoted} is not allowed"))
        }
        Ok((address, None)) => Ok(address),
    }
}

fn cidr_error(why: String) -> Fault {
    Fault::text(format!("network address parse error during conversion from string: {why}"))
}

fn parse_cidr(text: &str) -> Result<Cidr, String> {
    let shown = quoted(text);
    let fails = |why: &str| {
        format!(
            "network address parse error during conversion from string: netip.ParsePrefix({shown}): {why}"
        )
    };
    let (address, bits) = text.rsplit_once('/').ok_or_else(|| fails("no '/'"))?;
    let (address, zone) = address::parse(address)
        .map_err(|problem| fails(&format!("ParseAddr({}): {problem}", quoted(address))))?;
    if zone.is_some() {
        return Err(fails("IPv6 zones cannot be present in a prefix"));
    }
    let is_number = bits.bytes().all(|byte| byte.is_ascii_digit())
        && (bits.len() == 1 || !bits.starts_with('0'));
    let bits = bits
        .parse::<i64>()
        .ok()
        .filter(|_| is_number)
        .ok_or_else(|| fails(&format!("bad bits after slash: {}", quoted(bits))))?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = u8::try_from(bits)
        .ok()
        .filter(|bits| *bits <= most)
        .ok_or_else(|| fails("prefix length out of range"))?;
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {shown} is not allowed"))
        }
        address => Ok(Cidr { address, bits }),
    }
}

/// The address as a number with the network's bits first, and how many bits it has.
fn bits_of(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

fn mask(bits: u8) -> u128 {
    match bits {
        0 => 0,
        bits => u128::MAX << (128 - u32::from(bits)),
    }
}

fn masked(cidr: Cidr) -> Cidr {
    let bits = bits_of(cidr.address).0 & mask(cidr.bits);
    let address = match cidr.address {
        IpAddr::V4(_) => IpAddr::V4(u32::try_from(bits >> 96).unwrap_or(0).into()),
        IpAddr::V6(_) => IpAddr::V6(bits.into()),
    };
    Cidr { address, bits: cidr.bits }
}

fn contains(cidr: Cidr, address: IpAddr) -> bool {
    let ((network, family), (other, other_family)) = (bits_of(cidr.address), bits_of(address));
    family == other_family && (network ^ other) & mask(cidr.bits) == 0
}

fn contains_cidr(cidr: Cidr, other: Cidr) -> bool {
    cidr.bits <= other.bits && contains(cidr, other.address)
}
