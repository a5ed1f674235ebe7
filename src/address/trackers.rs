//! Names of query parameters that follow people and change no page, as data. Facts gathered from the
//! public lists of browsers and analytics vendors' own documentation; a name is here only if no
//! site is known to need it. Compared by whole name and case, but for `utm_`.

/// Track on every host; sorted.
pub(super) const NAMES: [&str; 115] = [
    "ScCid", "__hsfp", "__hssc", "__hstc", "__s", "__twitter_impression", "_bhlid",
    "_branch_match_id", "_branch_referrer", "_bta_c", "_bta_tid", "_ga", "_gac", "_gl", "_hsenc",
    "_hsmi", "_kx", "_openstat", "action_object_map", "action_ref_map", "action_type_map",
    "at_recipient_id", "at_recipient_list", "bsft_clkid", "bsft_eid", "bsft_mid", "bsft_uid",
    "ceneo_spo", "ck_subscriber_id", "dclid", "dicbo", "dm_i", "ef_id", "epik", "fb_action_ids",
    "fb_action_types", "fb_ref", "fb_source", "fbadid", "fbclid", "ga_campaign", "ga_content",
    "ga_medium", "ga_place", "ga_source", "ga_term", "gad_campaignid", "gad_source", "gbraid",
    "gclid", "gclsrc", "gdffi", "gdfms", "gdftrk", "gs_l", "guccounter", "guce_referrer",
    "guce_referrer_sig", "hmb_campaign", "hmb_medium", "hmb_source", "hsCtaTracking", "irclickid",
    "irgwc", "li_fat_id", "mc_cid", "mc_eid", "mkt_hm", "mkt_tok", "ml_subscriber",
    "ml_subscriber_hash", "msclkid", "nb_klid", "obclid", "oly_anon_id", "oly_enc_id",
    "piwik_campaign", "piwik_keyword", "piwik_kwd", "pk_campaign", "pk_cid", "pk_content",
    "pk_keyword", "pk_kwd", "pk_medium", "pk_source", "rb_clickid", "rdt_cid", "s_cid", "s_kwcid",
    "sccid", "sfmc_id", "sms_click", "sms_source", "sms_uph", "spm_id_from", "srsltid",
    "ss_email_id", "syclid", "tblci", "trk_contact", "trk_module", "trk_msg", "trk_sid", "ttclid",
    "twclid", "unicorn_click_id", "vero_conv", "vero_id", "wbraid", "wickedid", "xtor", "yclid",
    "ymclid", "ysclid",
];

/// Start names that track on every host (`utm_` is compared in any case, by the caller).
pub(super) const PREFIXES: [&str; 3] = ["hsa_", "matomo_", "mtm_"];

const AMAZON: &[&str] = &["pd_rd_i", "pd_rd_r", "pd_rd_w", "pd_rd_wg", "pf_rd_p", "pf_rd_r", "pf_rd_s"];
const YOUTUBE: &[&str] = &["ab_channel", "feature", "pp", "si"];

/// Track on one domain and below it.
pub(super) const SCOPED: [(&str, &[&str]); 25] = [
    ("aliexpress.com", &["spm", "scm", "algo_pvid", "algo_expid", "aff_fcid", "aff_trace_key"]),
    ("amazon.com", AMAZON),
    ("amazon.ca", AMAZON),
    ("amazon.co.jp", AMAZON),
    ("amazon.co.uk", AMAZON),
    ("amazon.de", AMAZON),
    ("amazon.es", AMAZON),
    ("amazon.fr", AMAZON),
    ("amazon.it", AMAZON),
    ("bilibili.com", &["spm_id_from", "vd_source"]),
    ("ebay.com", &["_trkparms", "_trksid", "mkcid", "mkrid"]),
    ("facebook.com", &["__tn__", "mibextid", "rdid", "share_url"]),
    ("imdb.com", &["ref_"]),
    ("instagram.com", &["igsh", "igshid"]),
    ("linkedin.com", &["lipi", "trackingId", "trk", "refId"]),
    ("medium.com", &["source"]),
    ("open.spotify.com", &["si", "context"]),
    ("reddit.com", &["correlation_id", "share_id", "rdt", "ref_campaign", "ref_source"]),
    ("taobao.com", &["spm", "scm"]),
    ("threads.net", &["igsh", "igshid", "xmt"]),
    ("tiktok.com", &["_r", "_t", "is_from_webapp", "sender_device"]),
    ("twitter.com", &["ref_src", "ref_url", "s", "t"]),
    ("x.com", &["ref_src", "ref_url", "s", "t"]),
    ("youtu.be", YOUTUBE),
    ("youtube.com", YOUTUBE),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_for_the_search() {
        assert!(NAMES.is_sorted());
    }
}
