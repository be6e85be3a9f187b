"""The table of azure_sizes: figures of kubernetes/autoscaler 1.36.1, cloudprovider/azure azure_instance_types.go."""

# Family of the quota and architecture, then each size as name:processors:GiB[:graphics processors].
# A blank in a family is written as ~.
SIZES = """
Standard~NCASv3_T4~Family/amd64 NC4as_T4_v3:4:28:1 NC8as_T4_v3:8:56:1 NC16as_T4_v3:16:110:1 NC64as_T4_v3:64:440:4
Standard~NDASv4_A100~Family/amd64 ND96asr_v4:96:900:8
StandardDadsv7Family/amd64 D2ads_v7:2:8 D4ads_v7:4:16 D8ads_v7:8:32 D16ads_v7:16:64 D32ads_v7:32:128
  D48ads_v7:48:192 D64ads_v7:64:256 D96ads_v7:96:384 D128ads_v7:128:512 D160ads_v7:160:640
StandardDaldsv7Family/amd64 D2alds_v7:2:4 D4alds_v7:4:8 D8alds_v7:8:16 D16alds_v7:16:32 D32alds_v7:32:64
  D48alds_v7:48:96 D64alds_v7:64:128 D96alds_v7:96:192 D128alds_v7:128:256 D160alds_v7:160:320
StandardDalsv7Family/amd64 D2als_v7:2:4 D4als_v7:4:8 D8als_v7:8:16 D16als_v7:16:32 D32als_v7:32:64 D48als_v7:48:96
  D64als_v7:64:128 D96als_v7:96:192 D128als_v7:128:256 D160als_v7:160:320
StandardDasv7Family/amd64 D2as_v7:2:8 D4as_v7:4:16 D8as_v7:8:32 D16as_v7:16:64 D32as_v7:32:128 D48as_v7:48:192
  D64as_v7:64:256 D96as_v7:96:384 D128as_v7:128:512 D160as_v7:160:640
StandardDdsv6Family/amd64 D2ds_v6:2:8 D4ds_v6:4:16 D8ds_v6:8:32 D16ds_v6:16:64 D32ds_v6:32:128 D48ds_v6:48:192
  D64ds_v6:64:256 D96ds_v6:96:384 D128ds_v6:128:512 D192ds_v6:192:768
StandardDldsv6Family/amd64 D2lds_v6:2:4 D4lds_v6:4:8 D8lds_v6:8:16 D16lds_v6:16:32 D32lds_v6:32:64 D48lds_v6:48:96
  D64lds_v6:64:128 D96lds_v6:96:192 D128lds_v6:128:256
StandardDlsv6Family/amd64 D2ls_v6:2:4 D4ls_v6:4:8 D8ls_v6:8:16 D16ls_v6:16:32 D32ls_v6:32:64 D48ls_v6:48:96
  D64ls_v6:64:128 D96ls_v6:96:192 D128ls_v6:128:256
StandardDpdsv6Family/arm64 D2pds_v6:2:8 D4pds_v6:4:16 D8pds_v6:8:32 D16pds_v6:16:64 D32pds_v6:32:128
  D48pds_v6:48:192 D64pds_v6:64:256 D96pds_v6:96:384
StandardDpldsv6Family/arm64 D2plds_v6:2:4 D4plds_v6:4:8 D8plds_v6:8:16 D16plds_v6:16:32 D32plds_v6:32:64
  D48plds_v6:48:96 D64plds_v6:64:128 D96plds_v6:96:192
StandardDplsv6Family/arm64 D2pls_v6:2:4 D4pls_v6:4:8 D8pls_v6:8:16 D16pls_v6:16:32 D32pls_v6:32:64 D48pls_v6:48:96
  D64pls_v6:64:128 D96pls_v6:96:192
StandardDpsv6Family/arm64 D2ps_v6:2:8 D4ps_v6:4:16 D8ps_v6:8:32 D16ps_v6:16:64 D32ps_v6:32:128 D48ps_v6:48:192
  D64ps_v6:64:256 D96ps_v6:96:384
StandardDsv6Family/amd64 D2s_v6:2:8 D4s_v6:4:16 D8s_v6:8:32 D16s_v6:16:64 D32s_v6:32:128 D48s_v6:48:192
  D64s_v6:64:256 D96s_v6:96:384 D128s_v6:128:512 D192s_v6:192:768
StandardECEDV6Family/amd64 EC2eds_v6:2:16 EC4eds_v6:4:32 EC8eds_v6:8:64 EC16eds_v6:16:128 EC32eds_v6:32:256
  EC48eds_v6:48:384 EC64eds_v6:64:512
StandardECEV6Family/amd64 EC2es_v6:2:16 EC4es_v6:4:32 EC8es_v6:8:64 EC16es_v6:16:128 EC32es_v6:32:256
  EC48es_v6:48:384 EC64es_v6:64:512
StandardEadsv7Family/amd64 E2ads_v7:2:16 E4-2ads_v7:4:32 E4ads_v7:4:32 E8-2ads_v7:8:64 E8-4ads_v7:8:64 E8ads_v7:8:64
  E16-4ads_v7:16:128 E16-8ads_v7:16:128 E16ads_v7:16:128 E32-16ads_v7:32:256 E32-8ads_v7:32:256 E32ads_v7:32:256
  E48ads_v7:48:384 E64-16ads_v7:64:512 E64-32ads_v7:64:512 E64ads_v7:64:512 E96-24ads_v7:96:768 E96-48ads_v7:96:768
  E96ads_v7:96:768 E128-32ads_v7:128:1024 E128-64ads_v7:128:1024 E128ads_v7:128:1024 E160ads_v7:160:1280
StandardEasv7Family/amd64 E2as_v7:2:16 E4-2as_v7:4:32 E4as_v7:4:32 E8-2as_v7:8:64 E8-4as_v7:8:64 E8as_v7:8:64
  E16-4as_v7:16:128 E16-8as_v7:16:128 E16as_v7:16:128 E32-16as_v7:32:256 E32-8as_v7:32:256 E32as_v7:32:256
  E48as_v7:48:384 E64-16as_v7:64:512 E64-32as_v7:64:512 E64as_v7:64:512 E96-24as_v7:96:768 E96-48as_v7:96:768
  E96as_v7:96:768 E128-32as_v7:128:1024 E128-64as_v7:128:1024 E128as_v7:128:1024 E160as_v7:160:1280
StandardEdsv6Family/amd64 E2ds_v6:2:16 E4-2ds_v6:4:32 E4ds_v6:4:32 E8-2ds_v6:8:64 E8-4ds_v6:8:64 E8ds_v6:8:64
  E16-4ds_v6:16:128 E16-8ds_v6:16:128 E16ds_v6:16:128 E20ds_v6:20:160 E32-16ds_v6:32:256 E32-8ds_v6:32:256
  E32ds_v6:32:256 E48ds_v6:48:384 E64-16ds_v6:64:512 E64-32ds_v6:64:512 E64ds_v6:64:512 E96-24ds_v6:96:768
  E96-48ds_v6:96:768 E96ds_v6:96:768 E128-32ds_v6:128:1024 E128-64ds_v6:128:1024 E128ds_v6:128:1024
  E192ids_v6:192:1832
StandardEpdsv6Family/arm64 E2pds_v6:2:16 E4pds_v6:4:32 E8pds_v6:8:64 E16pds_v6:16:128 E32pds_v6:32:256
  E48pds_v6:48:384 E64pds_v6:64:512 E96pds_v6:96:672
StandardEpsv6Family/arm64 E2ps_v6:2:16 E4ps_v6:4:32 E8ps_v6:8:64 E16ps_v6:16:128 E32ps_v6:32:256 E48ps_v6:48:384
  E64ps_v6:64:512 E96ps_v6:96:672
StandardEsv6Family/amd64 E2s_v6:2:16 E4-2s_v6:4:32 E4s_v6:4:32 E8-2s_v6:8:64 E8-4s_v6:8:64 E8s_v6:8:64
  E16-4s_v6:16:128 E16-8s_v6:16:128 E16s_v6:16:128 E20s_v6:20:160 E32-16s_v6:32:256 E32-8s_v6:32:256 E32s_v6:32:256
  E48s_v6:48:384 E64-16s_v6:64:512 E64-32s_v6:64:512 E64s_v6:64:512 E96-24s_v6:96:768 E96-48s_v6:96:768
  E96s_v6:96:768 E128-32s_v6:128:1024 E128-64s_v6:128:1024 E128s_v6:128:1024 E192is_v6:192:1832
StandardFXmdsv2Family/amd64 FX2mds_v2:2:42 FX4-2mds_v2:4:84 FX4mds_v2:4:84 FX8-2mds_v2:8:168 FX8-4mds_v2:8:168
  FX8mds_v2:8:168 FX12-6mds_v2:12:252 FX12mds_v2:12:252 FX16-4mds_v2:16:336 FX16-8mds_v2:16:336 FX16mds_v2:16:336
  FX24-12mds_v2:24:504 FX24-6mds_v2:24:504 FX24mds_v2:24:504 FX32-16mds_v2:32:672 FX32-8mds_v2:32:672
  FX32mds_v2:32:672 FX48-12mds_v2:48:1008 FX48-24mds_v2:48:1008 FX48mds_v2:48:1008 FX64-16mds_v2:64:1344
  FX64-32mds_v2:64:1344 FX64mds_v2:64:1344 FX96-24mds_v2:96:1832 FX96-48mds_v2:96:1832 FX96mds_v2:96:1832
StandardFXmsv2Family/amd64 FX2ms_v2:2:42 FX4-2ms_v2:4:84 FX4ms_v2:4:84 FX8-2ms_v2:8:168 FX8-4ms_v2:8:168
  FX8ms_v2:8:168 FX12-6ms_v2:12:252 FX12ms_v2:12:252 FX16-4ms_v2:16:336 FX16-8ms_v2:16:336 FX16ms_v2:16:336
  FX24-12ms_v2:24:504 FX24-6ms_v2:24:504 FX24ms_v2:24:504 FX32-16ms_v2:32:672 FX32-8ms_v2:32:672 FX32ms_v2:32:672
  FX48-12ms_v2:48:1008 FX48-24ms_v2:48:1008 FX48ms_v2:48:1008 FX64-16ms_v2:64:1344 FX64-32ms_v2:64:1344
  FX64ms_v2:64:1344 FX96-24ms_v2:96:1832 FX96-48ms_v2:96:1832 FX96ms_v2:96:1832
StandardFadsv7Family/amd64 F1ads_v7:1:4 F2ads_v7:2:8 F4ads_v7:4:16 F8ads_v7:8:32 F16ads_v7:16:64 F32ads_v7:32:128
  F48ads_v7:48:192 F64ads_v7:64:256 F80ads_v7:80:320
StandardFaldsv7Family/amd64 F1alds_v7:1:2 F2alds_v7:2:4 F4alds_v7:4:8 F8alds_v7:8:16 F16alds_v7:16:32
  F32alds_v7:32:64 F48alds_v7:48:96 F64alds_v7:64:128 F80alds_v7:80:160
StandardFalsv6Family/amd64 F2als_v6:2:4 F4als_v6:4:8 F8als_v6:8:16 F16als_v6:16:32 F32als_v6:32:64 F48als_v6:48:96
  F64als_v6:64:128
StandardFalsv7Family/amd64 F1als_v7:1:2 F2als_v7:2:4 F4als_v7:4:8 F8als_v7:8:16 F16als_v7:16:32 F32als_v7:32:64
  F48als_v7:48:96 F64als_v7:64:128 F80als_v7:80:160
StandardFamdsv7Family/amd64 F1amds_v7:1:8 F2-1amds_v7:2:16 F2amds_v7:2:16 F4-1amds_v7:4:32 F4-2amds_v7:4:32
  F4amds_v7:4:32 F8-2amds_v7:8:64 F8-4amds_v7:8:64 F8amds_v7:8:64 F16-4amds_v7:16:128 F16-8amds_v7:16:128
  F16amds_v7:16:128 F32-16amds_v7:32:256 F32-8amds_v7:32:256 F32amds_v7:32:256 F48amds_v7:48:384
  F64-16amds_v7:64:512 F64-32amds_v7:64:512 F64amds_v7:64:512 F80amds_v7:80:640
StandardFamsv6Family/amd64 F2ams_v6:2:16 F4ams_v6:4:32 F8ams_v6:8:64 F16ams_v6:16:128 F32ams_v6:32:256
  F48ams_v6:48:384 F64ams_v6:64:512
StandardFamsv7Family/amd64 F1ams_v7:1:8 F2-1ams_v7:2:16 F2ams_v7:2:16 F4-1ams_v7:4:32 F4-2ams_v7:4:32 F4ams_v7:4:32
  F8-2ams_v7:8:64 F8-4ams_v7:8:64 F8ams_v7:8:64 F16-4ams_v7:16:128 F16-8ams_v7:16:128 F16ams_v7:16:128
  F32-16ams_v7:32:256 F32-8ams_v7:32:256 F32ams_v7:32:256 F48ams_v7:48:384 F64-32ams_v7:64:512 F64ams_v7:64:512
  F64-16ams_v7:80:512 F80ams_v7:80:640
StandardFasv6Family/amd64 F2as_v6:2:8 F4as_v6:4:16 F8as_v6:8:32 F16as_v6:16:64 F32as_v6:32:128 F48as_v6:48:192
  F64as_v6:64:256
StandardFasv7Family/amd64 F1as_v7:1:4 F2as_v7:2:8 F4as_v7:4:16 F8as_v7:8:32 F16as_v7:16:64 F32as_v7:32:128
  F48as_v7:48:192 F64as_v7:64:256 F80as_v7:80:320
StandardMBDSMediumMemoryv3Family/amd64 M16bds_v3:16:128 M32bds_v3:32:256 M48bds_v3:48:384 M64-32bds_1_v3:64:1397
  M64bds_1_v3:64:1397 M64bds_v3:64:512 M96-48bds_2_v3:96:1946 M96bds_2_v3:96:1946 M96bds_v3:96:768
  M128-64bds_3_v3:128:2794 M128-64bds_v3:128:1024 M128bds_3_v3:128:2794 M128bds_v3:128:1024 M176-88bds_4_v3:176:3892
  M176-88bds_v3:176:1536 M176bds_4_v3:176:3892 M176bds_v3:176:1536
StandardMBSMediumMemoryv3Family/amd64 M16bs_v3:16:128 M32bs_v3:32:256 M48bs_v3:48:384 M64bs_v3:64:512
  M96bs_v3:96:768 M128-64bs_v3:128:1024 M128bs_v3:128:1024 M176-88bs_v3:176:1536 M176bs_v3:176:1536
  M416bs_v3:416:3800
StandardNCADSA100v4Family/amd64 NC24ads_A100_v4:24:220:1 NC48ads_A100_v4:48:440:2 NC96ads_A100_v4:96:880:4
StandardNCADSA10v4Family/amd64 NC8ads_A10_v4:8:100:1 NC16ads_A10_v4:16:200:1 NC32ads_A10_v4:32:400:2
StandardNCCads2023Family/amd64 NCC40ads_H100_v5:40:320:1
StandardNCadsH100v5Family/amd64 NC40ads_H100_v5:40:320:1 NC80adis_H100_v5:80:640:2
StandardNGADSV620v1Family/amd64 NG8ads_V620_v1:8:16 NG16ads_V620_v1:16:32 NG32adms_V620_v1:32:176
  NG32ads_V620_v1:32:64
StandardNVADSA10v5Family/amd64 NV6ads_A10_v5:6:55:1 NV12ads_A10_v5:12:110:1 NV18ads_A10_v5:18:220:1
  NV36adms_A10_v5:36:880:1 NV36ads_A10_v5:36:440:1 NV72ads_A10_v5:72:880:2
StandardNVadsV710v5Family/amd64 NV4ads_V710_v5:4:16 NV8ads_V710_v5:8:32 NV12ads_V710_v5:12:64 NV24ads_V710_v5:24:128
  NV28adms_V710_v5:28:160
standard~NDAMSv4_A100Family/amd64 ND96amsr_A100_v4:96:1800:8
standardAv2Family/amd64 A1_v2:1:2 A2_v2:2:4 A2m_v2:2:16 A4_v2:4:8 A4m_v2:4:32 A8_v2:8:16 A8m_v2:8:64
standardBSFamily/amd64 B1ls:1:0 B1ms:1:2 B1s:1:1 B2ms:2:8 B2s:2:4 B4ms:4:16 B8ms:8:32 B12ms:12:48 B16ms:16:64
  B20ms:20:80
standardBasv2Family/amd64 B2als_v2:2:4 B2as_v2:2:8 B2ats_v2:2:1 B4als_v2:4:8 B4as_v2:4:16 B8als_v2:8:16 B8as_v2:8:32
  B16als_v2:16:32 B16as_v2:16:64 B32als_v2:32:64 B32as_v2:32:128
standardBpsv2Family/arm64 B2pls_v2:2:4 B2ps_v2:2:8 B2pts_v2:2:1 B4pls_v2:4:8 B4ps_v2:4:16 B8pls_v2:8:16 B8ps_v2:8:32
  B16pls_v2:16:32 B16ps_v2:16:64
standardBsv2Family/amd64 B2ls_v2:2:4 B2s_v2:2:8 B2ts_v2:2:1 B4ls_v2:4:8 B4s_v2:4:16 B8ls_v2:8:16 B8s_v2:8:32
  B16ls_v2:16:32 B16s_v2:16:64 B32ls_v2:32:64 B32s_v2:32:128
standardDADSv5Family/amd64 D2ads_v5:2:8 D4ads_v5:4:16 D8ads_v5:8:32 D16ads_v5:16:64 D32ads_v5:32:128
  D48ads_v5:48:192 D64ads_v5:64:256 D96ads_v5:96:384
standardDASv4Family/amd64 D2as_v4:2:8 D4as_v4:4:16 D8as_v4:8:32 D16as_v4:16:64 D32as_v4:32:128 D48as_v4:48:192
  D64as_v4:64:256 D96as_v4:96:384
standardDASv5Family/amd64 D2as_v5:2:8 D4as_v5:4:16 D8as_v5:8:32 D16as_v5:16:64 D32as_v5:32:128 D48as_v5:48:192
  D64as_v5:64:256 D96as_v5:96:384
standardDAv4Family/amd64 D2a_v4:2:8 D4a_v4:4:16 D8a_v4:8:32 D16a_v4:16:64 D32a_v4:32:128 D48a_v4:48:192
  D64a_v4:64:256 D96a_v4:96:384
standardDCACCV5Family/amd64 DC4as_cc_v5:4:16 DC8as_cc_v5:8:32 DC16as_cc_v5:16:64 DC32as_cc_v5:32:128
  DC48as_cc_v5:48:192 DC64as_cc_v5:64:256 DC96as_cc_v5:96:384
standardDCADCCV5Family/amd64 DC4ads_cc_v5:4:16 DC8ads_cc_v5:8:32 DC16ads_cc_v5:16:64 DC32ads_cc_v5:32:128
  DC48ads_cc_v5:48:192 DC64ads_cc_v5:64:256 DC96ads_cc_v5:96:384
standardDCADSv5Family/amd64 DC2ads_v5:2:8 DC4ads_v5:4:16 DC8ads_v5:8:32 DC16ads_v5:16:64 DC32ads_v5:32:128
  DC48ads_v5:48:192 DC64ads_v5:64:256 DC96ads_v5:96:384
standardDCASv5Family/amd64 DC2as_v5:2:8 DC4as_v5:4:16 DC8as_v5:8:32 DC16as_v5:16:64 DC32as_v5:32:128
  DC48as_v5:48:192 DC64as_v5:64:256 DC96as_v5:96:384
standardDCEDV5Family/amd64 DC2eds_v5:2:8 DC4eds_v5:4:16 DC8eds_v5:8:32 DC16eds_v5:16:64 DC32eds_v5:32:128
  DC48eds_v5:48:192 DC64eds_v5:64:256 DC96eds_v5:96:384
standardDCEDV6Family/amd64 DC2eds_v6:2:8 DC4eds_v6:4:16 DC8eds_v6:8:32 DC16eds_v6:16:64 DC32eds_v6:32:128
  DC48eds_v6:48:192 DC64eds_v6:64:256 DC96eds_v6:96:384 DC128eds_v6:128:512
standardDCEV5Family/amd64 DC2es_v5:2:8 DC4es_v5:4:16 DC8es_v5:8:32 DC16es_v5:16:64 DC32es_v5:32:128 DC48es_v5:48:192
  DC64es_v5:64:256 DC96es_v5:96:384
standardDCEV6Family/amd64 DC2es_v6:2:8 DC4es_v6:4:16 DC8es_v6:8:32 DC16es_v6:16:64 DC32es_v6:32:128 DC48es_v6:48:192
  DC64es_v6:64:256 DC96es_v6:96:384 DC128es_v6:128:512
standardDCSv2Family/amd64 DC1s_v2:1:4 DC2s_v2:2:8 DC4s_v2:4:16 DC8_v2:8:32
standardDCSv3Family/amd64 DC1s_v3:1:8 DC2s_v3:2:16 DC4s_v3:4:32 DC8s_v3:8:64 DC16s_v3:16:128 DC24s_v3:24:192
  DC32s_v3:32:256 DC48s_v3:48:384
standardDCadsv6Family/amd64 DC2ads_v6:2:8 DC4ads_v6:4:16 DC8ads_v6:8:32 DC16ads_v6:16:64 DC32ads_v6:32:128
  DC48ads_v6:48:192 DC64ads_v6:64:256 DC96ads_v6:96:384
standardDCasv6Family/amd64 DC2as_v6:2:8 DC4as_v6:4:16 DC8as_v6:8:32 DC16as_v6:16:64 DC32as_v6:32:128
  DC48as_v6:48:192 DC64as_v6:64:256 DC96as_v6:96:384
standardDDCSv3Family/amd64 DC1ds_v3:1:8 DC2ds_v3:2:16 DC4ds_v3:4:32 DC8ds_v3:8:64 DC16ds_v3:16:128 DC24ds_v3:24:192
  DC32ds_v3:32:256 DC48ds_v3:48:384
standardDDSv4Family/amd64 D2ds_v4:2:8 D4ds_v4:4:16 D8ds_v4:8:32 D16ds_v4:16:64 D32ds_v4:32:128 D48ds_v4:48:192
  D64ds_v4:64:256
standardDDSv5Family/amd64 D2ds_v5:2:8 D4ds_v5:4:16 D8ds_v5:8:32 D16ds_v5:16:64 D32ds_v5:32:128 D48ds_v5:48:192
  D64ds_v5:64:256 D96ds_v5:96:384
standardDDv4Family/amd64 D2d_v4:2:8 D4d_v4:4:16 D8d_v4:8:32 D16d_v4:16:64 D32d_v4:32:128 D48d_v4:48:192
  D64d_v4:64:256
standardDDv5Family/amd64 D2d_v5:2:8 D4d_v5:4:16 D8d_v5:8:32 D16d_v5:16:64 D32d_v5:32:128 D48d_v5:48:192
  D64d_v5:64:256 D96d_v5:96:384
standardDFamily/amd64 D1:1:3 D11:2:14 D2:2:7 D12:4:28 D3:4:14 D13:8:56 D4:8:28 D14:16:112
standardDLDSv5Family/amd64 D2lds_v5:2:4 D4lds_v5:4:8 D8lds_v5:8:16 D16lds_v5:16:32 D32lds_v5:32:64 D48lds_v5:48:96
  D64lds_v5:64:128 D96lds_v5:96:192
standardDLSv5Family/amd64 D2ls_v5:2:4 D4ls_v5:4:8 D8ls_v5:8:16 D16ls_v5:16:32 D32ls_v5:32:64 D48ls_v5:48:96
  D64ls_v5:64:128 D96ls_v5:96:192
standardDPDSv5Family/arm64 D2pds_v5:2:8 D4pds_v5:4:16 D8pds_v5:8:32 D16pds_v5:16:64 D32pds_v5:32:128
  D48pds_v5:48:192 D64pds_v5:64:208
standardDPLDSv5Family/arm64 D2plds_v5:2:4 D4plds_v5:4:8 D8plds_v5:8:16 D16plds_v5:16:32 D32plds_v5:32:64
  D48plds_v5:48:96 D64plds_v5:64:128
standardDPLSv5Family/arm64 D2pls_v5:2:4 D4pls_v5:4:8 D8pls_v5:8:16 D16pls_v5:16:32 D32pls_v5:32:64 D48pls_v5:48:96
  D64pls_v5:64:128
standardDPSv5Family/arm64 D2ps_v5:2:8 D4ps_v5:4:16 D8ps_v5:8:32 D16ps_v5:16:64 D32ps_v5:32:128 D48ps_v5:48:192
  D64ps_v5:64:208
standardDSFamily/amd64 DS1:1:3 DS11:2:14 DS2:2:7 DS12:4:28 DS3:4:14 DS13:8:56 DS4:8:28 DS14:16:112
standardDSv2Family/amd64 DS1_v2:1:3 DS11-1_v2:2:14 DS11_v2:2:14 DS2_v2:2:7 DS12-1_v2:4:28 DS12-2_v2:4:28
  DS12_v2:4:28 DS3_v2:4:14 DS13-2_v2:8:56 DS13-4_v2:8:56 DS13_v2:8:56 DS4_v2:8:28 DS14-4_v2:16:112 DS14-8_v2:16:112
  DS14_v2:16:112 DS5_v2:16:56 DS15_v2:20:140
standardDSv2PromoFamily/amd64 DS11_v2_Promo:2:14 DS2_v2_Promo:2:7 DS12_v2_Promo:4:28 DS3_v2_Promo:4:14
  DS13_v2_Promo:8:56 DS4_v2_Promo:8:28 DS14_v2_Promo:16:112 DS5_v2_Promo:16:56
standardDSv3Family/amd64 D2s_v3:2:8 D4s_v3:4:16 D8s_v3:8:32 D16s_v3:16:64 D32s_v3:32:128 D48s_v3:48:192
  D64s_v3:64:256
standardDSv4Family/amd64 D2s_v4:2:8 D4s_v4:4:16 D8s_v4:8:32 D16s_v4:16:64 D32s_v4:32:128 D48s_v4:48:192
  D64s_v4:64:256
standardDSv5Family/amd64 D2s_v5:2:8 D4s_v5:4:16 D8s_v5:8:32 D16s_v5:16:64 D32s_v5:32:128 D48s_v5:48:192
  D64s_v5:64:256 D96s_v5:96:384
standardDadv6Family/amd64 D2ads_v6:2:8 D4ads_v6:4:16 D8ads_v6:8:32 D16ads_v6:16:64 D32ads_v6:32:128 D48ads_v6:48:192
  D64ads_v6:64:256 D96ads_v6:96:384
standardDaldv6Family/amd64 D2alds_v6:2:4 D4alds_v6:4:8 D8alds_v6:8:16 D16alds_v6:16:32 D32alds_v6:32:64
  D48alds_v6:48:96 D64alds_v6:64:128 D96alds_v6:96:192
standardDalv6Family/amd64 D2als_v6:2:4 D4als_v6:4:8 D8als_v6:8:16 D16als_v6:16:32 D32als_v6:32:64 D48als_v6:48:96
  D64als_v6:64:128 D96als_v6:96:192
standardDav6Family/amd64 D2as_v6:2:8 D4as_v6:4:16 D8as_v6:8:32 D16as_v6:16:64 D32as_v6:32:128 D48as_v6:48:192
  D64as_v6:64:256 D96as_v6:96:384
standardDv2Family/amd64 D1_v2:1:3 D11_v2:2:14 D2_v2:2:7 D12_v2:4:28 D3_v2:4:14 D13_v2:8:56 D4_v2:8:28 D14_v2:16:112
  D5_v2:16:56 D15_v2:20:140
standardDv2PromoFamily/amd64 D11_v2_Promo:2:14 D2_v2_Promo:2:7 D12_v2_Promo:4:28 D3_v2_Promo:4:14 D13_v2_Promo:8:56
  D4_v2_Promo:8:28 D14_v2_Promo:16:112 D5_v2_Promo:16:56
standardDv3Family/amd64 D2_v3:2:8 D4_v3:4:16 D8_v3:8:32 D16_v3:16:64 D32_v3:32:128 D48_v3:48:192 D64_v3:64:256
standardDv4Family/amd64 D2_v4:2:8 D4_v4:4:16 D8_v4:8:32 D16_v4:16:64 D32_v4:32:128 D48_v4:48:192 D64_v4:64:256
standardDv5Family/amd64 D2_v5:2:8 D4_v5:4:16 D8_v5:8:32 D16_v5:16:64 D32_v5:32:128 D48_v5:48:192 D64_v5:64:256
  D96_v5:96:384
standardEADSv5Family/amd64 E2ads_v5:2:16 E4-2ads_v5:4:32 E4ads_v5:4:32 E8-2ads_v5:8:64 E8-4ads_v5:8:64 E8ads_v5:8:64
  E16-4ads_v5:16:128 E16-8ads_v5:16:128 E16ads_v5:16:128 E20ads_v5:20:160 E32-16ads_v5:32:256 E32-8ads_v5:32:256
  E32ads_v5:32:256 E48ads_v5:48:384 E64-16ads_v5:64:512 E64-32ads_v5:64:512 E64ads_v5:64:512 E96-24ads_v5:96:672
  E96-48ads_v5:96:672 E96ads_v5:96:672
standardEASv4Family/amd64 E2as_v4:2:16 E4-2as_v4:4:32 E4as_v4:4:32 E8-2as_v4:8:64 E8-4as_v4:8:64 E8as_v4:8:64
  E16-4as_v4:16:128 E16-8as_v4:16:128 E16as_v4:16:128 E20as_v4:20:160 E32-16as_v4:32:256 E32-8as_v4:32:256
  E32as_v4:32:256 E48as_v4:48:384 E64-16as_v4:64:512 E64-32as_v4:64:512 E64as_v4:64:512 E96-24as_v4:96:672
  E96-48as_v4:96:672 E96as_v4:96:672
standardEASv5Family/amd64 E2as_v5:2:16 E4-2as_v5:4:32 E4as_v5:4:32 E8-2as_v5:8:64 E8-4as_v5:8:64 E8as_v5:8:64
  E16-4as_v5:16:128 E16-8as_v5:16:128 E16as_v5:16:128 E20as_v5:20:160 E32-16as_v5:32:256 E32-8as_v5:32:256
  E32as_v5:32:256 E48as_v5:48:384 E64-16as_v5:64:512 E64-32as_v5:64:512 E64as_v5:64:512 E96-24as_v5:96:672
  E96-48as_v5:96:672 E96as_v5:96:672
standardEAv4Family/amd64 E2a_v4:2:16 E4a_v4:4:32 E8a_v4:8:64 E16a_v4:16:128 E20a_v4:20:160 E32a_v4:32:256
  E48a_v4:48:384 E64a_v4:64:512 E96a_v4:96:672
standardEBDSv5Family/amd64 E2bds_v5:2:16 E4bds_v5:4:32 E8bds_v5:8:64 E16bds_v5:16:128 E32bds_v5:32:256
  E48bds_v5:48:384 E64bds_v5:64:512 E96bds_v5:96:672
standardEBSv5Family/amd64 E2bs_v5:2:16 E4bs_v5:4:32 E8bs_v5:8:64 E16bs_v5:16:128 E32bs_v5:32:256 E48bs_v5:48:384
  E64bs_v5:64:512 E96bs_v5:96:672
standardECACCV5Family/amd64 EC4as_cc_v5:4:32 EC8as_cc_v5:8:64 EC16as_cc_v5:16:128 EC20as_cc_v5:20:160
  EC32as_cc_v5:32:192 EC48as_cc_v5:48:384 EC64as_cc_v5:64:512 EC96as_cc_v5:96:672
standardECADCCV5Family/amd64 EC4ads_cc_v5:4:32 EC8ads_cc_v5:8:64 EC16ads_cc_v5:16:128 EC20ads_cc_v5:20:160
  EC32ads_cc_v5:32:192 EC48ads_cc_v5:48:384 EC64ads_cc_v5:64:512 EC96ads_cc_v5:96:672
standardECADSv5Family/amd64 EC2ads_v5:2:16 EC4ads_v5:4:32 EC8ads_v5:8:64 EC16ads_v5:16:128 EC20ads_v5:20:160
  EC32ads_v5:32:192 EC48ads_v5:48:384 EC64ads_v5:64:512 EC96ads_v5:96:672
standardECASv5Family/amd64 EC2as_v5:2:16 EC4as_v5:4:32 EC8as_v5:8:64 EC16as_v5:16:128 EC20as_v5:20:160
  EC32as_v5:32:192 EC48as_v5:48:384 EC64as_v5:64:512 EC96as_v5:96:672
standardECEDV5Family/amd64 EC2eds_v5:2:16 EC4eds_v5:4:32 EC8eds_v5:8:64 EC16eds_v5:16:128 EC32eds_v5:32:256
  EC48eds_v5:48:384 EC64eds_v5:64:512 EC128eds_v5:128:768
standardECEV5Family/amd64 EC2es_v5:2:16 EC4es_v5:4:32 EC8es_v5:8:64 EC16es_v5:16:128 EC32es_v5:32:256
  EC48es_v5:48:384 EC64es_v5:64:512 EC128es_v5:128:768
standardECIADSv5Family/amd64 EC96iads_v5:96:672
standardECIASv5Family/amd64 EC96ias_v5:96:672
standardECIEDV5Family/amd64 EC128ieds_v5:128:768
standardECIEV5Family/amd64 EC128ies_v5:128:768
standardECadsv6Family/amd64 EC2ads_v6:2:16 EC4ads_v6:4:32 EC8ads_v6:8:64 EC16ads_v6:16:128 EC32ads_v6:32:256
  EC48ads_v6:48:384 EC64ads_v6:64:512 EC96ads_v6:96:672
standardECasv6Family/amd64 EC2as_v6:2:16 EC4as_v6:4:32 EC8as_v6:8:64 EC16as_v6:16:128 EC32as_v6:32:256
  EC48as_v6:48:384 EC64as_v6:64:512 EC96as_v6:96:672
standardEDSv4Family/amd64 E2ds_v4:2:16 E4-2ds_v4:4:32 E4ds_v4:4:32 E8-2ds_v4:8:64 E8-4ds_v4:8:64 E8ds_v4:8:64
  E16-4ds_v4:16:128 E16-8ds_v4:16:128 E16ds_v4:16:128 E20ds_v4:20:160 E32-16ds_v4:32:256 E32-8ds_v4:32:256
  E32ds_v4:32:256 E48ds_v4:48:384 E64-16ds_v4:64:504 E64-32ds_v4:64:504 E64ds_v4:64:504
standardEDSv5Family/amd64 E2ds_v5:2:16 E4-2ds_v5:4:32 E4ds_v5:4:32 E8-2ds_v5:8:64 E8-4ds_v5:8:64 E8ds_v5:8:64
  E16-4ds_v5:16:128 E16-8ds_v5:16:128 E16ds_v5:16:128 E20ds_v5:20:160 E32-16ds_v5:32:256 E32-8ds_v5:32:256
  E32ds_v5:32:256 E48ds_v5:48:384 E64-16ds_v5:64:512 E64-32ds_v5:64:512 E64ds_v5:64:512 E96-24ds_v5:96:672
  E96-48ds_v5:96:672 E96ds_v5:96:672
standardEDv4Family/amd64 E2d_v4:2:16 E4d_v4:4:32 E8d_v4:8:64 E16d_v4:16:128 E20d_v4:20:160 E32d_v4:32:256
  E48d_v4:48:384 E64d_v4:64:504
standardEDv5Family/amd64 E2d_v5:2:16 E4d_v5:4:32 E8d_v5:8:64 E16d_v5:16:128 E20d_v5:20:160 E32d_v5:32:256
  E48d_v5:48:384 E64d_v5:64:512 E96d_v5:96:672
standardEIADSv5Family/amd64 E112iads_v5:112:672
standardEIASv4Family/amd64 E96ias_v4:96:672
standardEIASv5Family/amd64 E112ias_v5:112:672
standardEIBDSv5Family/amd64 E112ibds_v5:112:672
standardEIBSv5Family/amd64 E112ibs_v5:112:672
standardEIDSv5Family/amd64 E104ids_v5:104:672
standardEIDv5Family/amd64 E104id_v5:104:672
standardEISv3Family/amd64 E64is_v3:64:432
standardEISv5Family/amd64 E104is_v5:104:672
standardEIv3Family/amd64 E64i_v3:64:432
standardEIv5Family/amd64 E104i_v5:104:672
standardEPDSv5Family/arm64 E2pds_v5:2:16 E4pds_v5:4:32 E8pds_v5:8:64 E16pds_v5:16:128 E20pds_v5:20:160
  E32pds_v5:32:208
standardEPSv5Family/arm64 E2ps_v5:2:16 E4ps_v5:4:32 E8ps_v5:8:64 E16ps_v5:16:128 E20ps_v5:20:160 E32ps_v5:32:208
standardESv3Family/amd64 E2s_v3:2:16 E4-2s_v3:4:32 E4s_v3:4:32 E8-2s_v3:8:64 E8-4s_v3:8:64 E8s_v3:8:64
  E16-4s_v3:16:128 E16-8s_v3:16:128 E16s_v3:16:128 E20s_v3:20:160 E32-16s_v3:32:256 E32-8s_v3:32:256 E32s_v3:32:256
  E48s_v3:48:384 E64-16s_v3:64:432 E64-32s_v3:64:432 E64s_v3:64:432
standardESv4Family/amd64 E2s_v4:2:16 E4-2s_v4:4:32 E4s_v4:4:32 E8-2s_v4:8:64 E8-4s_v4:8:64 E8s_v4:8:64
  E16-4s_v4:16:128 E16-8s_v4:16:128 E16s_v4:16:128 E20s_v4:20:160 E32-16s_v4:32:256 E32-8s_v4:32:256 E32s_v4:32:256
  E48s_v4:48:384 E64-16s_v4:64:504 E64-32s_v4:64:504 E64s_v4:64:504
standardESv5Family/amd64 E2s_v5:2:16 E4-2s_v5:4:32 E4s_v5:4:32 E8-2s_v5:8:64 E8-4s_v5:8:64 E8s_v5:8:64
  E16-4s_v5:16:128 E16-8s_v5:16:128 E16s_v5:16:128 E20s_v5:20:160 E32-16s_v5:32:256 E32-8s_v5:32:256 E32s_v5:32:256
  E48s_v5:48:384 E64-16s_v5:64:512 E64-32s_v5:64:512 E64s_v5:64:512 E96-24s_v5:96:672 E96-48s_v5:96:672
  E96s_v5:96:672
standardEadv6Family/amd64 E2ads_v6:2:16 E4ads_v6:4:32 E8ads_v6:8:64 E16ads_v6:16:128 E20ads_v6:20:160
  E32ads_v6:32:256 E48ads_v6:48:384 E64ads_v6:64:512 E96-24ads_v6:96:672 E96-48ads_v6:96:672 E96ads_v6:96:672
standardEav6Family/amd64 E2as_v6:2:16 E4as_v6:4:32 E8as_v6:8:64 E16as_v6:16:128 E20as_v6:20:160 E32as_v6:32:256
  E48as_v6:48:384 E64as_v6:64:512 E96as_v6:96:672
standardEv3Family/amd64 E2_v3:2:16 E4_v3:4:32 E8_v3:8:64 E16_v3:16:128 E20_v3:20:160 E32_v3:32:256 E48_v3:48:384
  E64_v3:64:432
standardEv4Family/amd64 E2_v4:2:16 E4_v4:4:32 E8_v4:8:64 E16_v4:16:128 E20_v4:20:160 E32_v4:32:256 E48_v4:48:384
  E64_v4:64:504
standardEv5Family/amd64 E2_v5:2:16 E4_v5:4:32 E8_v5:8:64 E16_v5:16:128 E20_v5:20:160 E32_v5:32:256 E48_v5:48:384
  E64_v5:64:512 E96_v5:96:672
standardFFamily/amd64 F1:1:2 F2:2:4 F4:4:8 F8:8:16 F16:16:32
standardFSFamily/amd64 F1s:1:2 F2s:2:4 F4s:4:8 F8s:8:16 F16s:16:32
standardFSv2Family/amd64 F2s_v2:2:4 F4s_v2:4:8 F8s_v2:8:16 F16s_v2:16:32 F32s_v2:32:64 F48s_v2:48:96 F64s_v2:64:128
  F72s_v2:72:144
standardFXMDVSFamily/amd64 FX4mds:4:84 FX12mds:12:252 FX24mds:24:504 FX36mds:36:756 FX48mds:48:1008
standardGFamily/amd64 G1:2:28 G2:4:56 G3:8:112 G4:16:224 G5:32:448
standardGSFamily/amd64 GS1:2:28 GS2:4:56 GS3:8:112 GS4:16:224 GS4-4:16:224 GS4-8:16:224 GS5:32:448 GS5-16:32:448
  GS5-8:32:448
standardHBrsv2Family/amd64 HB120-16rs_v2:120:456 HB120-32rs_v2:120:456 HB120-64rs_v2:120:456 HB120-96rs_v2:120:456
  HB120rs_v2:120:456
standardHBv3Family/amd64 HB120-16rs_v3:120:456 HB120-32rs_v3:120:456 HB120-64rs_v3:120:456 HB120-96rs_v3:120:456
  HB120rs_v3:120:456
standardHBv4Family/amd64 HB176-144rs_v4:176:768 HB176-24rs_v4:176:768 HB176-48rs_v4:176:768 HB176-96rs_v4:176:768
  HB176rs_v4:176:768
standardHBv5Family/amd64 HB368-144rs_v5:368:448 HB368-192rs_v5:368:448 HB368-240rs_v5:368:448 HB368-288rs_v5:368:448
  HB368-336rs_v5:368:448 HB368-48rs_v5:368:448 HB368-96rs_v5:368:448 HB368rs_v5:368:448
standardHCSFamily/amd64 HC44-16rs:44:352 HC44-32rs:44:352 HC44rs:44:352
standardHXFamily/amd64 HX176-144rs:176:1408 HX176-24rs:176:1408 HX176-48rs:176:1408 HX176-96rs:176:1408
  HX176rs:176:1408
standardLASv3Family/amd64 L8as_v3:8:64 L16as_v3:16:128 L32as_v3:32:256 L48as_v3:48:384 L64as_v3:64:512
  L80as_v3:80:640
standardLSFamily/amd64 L4s:4:32 L8s:8:64 L16s:16:128 L32s:32:256
standardLSv2Family/amd64 L8s_v2:8:64 L16s_v2:16:128 L32s_v2:32:256 L48s_v2:48:384 L64s_v2:64:512 L80s_v2:80:640
standardLSv3Family/amd64 L8s_v3:8:64 L16s_v3:16:128 L32s_v3:32:256 L48s_v3:48:384 L64s_v3:64:512 L80s_v3:80:640
standardLaosv4Family/amd64 L2aos_v4:2:16 L4aos_v4:4:32 L8aos_v4:8:64 L12aos_v4:12:96 L16aos_v4:16:128
  L24aos_v4:24:192 L32aos_v4:32:256
standardLasv4Family/amd64 L2as_v4:2:16 L4as_v4:4:32 L8as_v4:8:64 L16as_v4:16:128 L32as_v4:32:256 L48as_v4:48:384
  L64as_v4:64:512 L80as_v4:80:640 L96as_v4:96:768
standardLsv4Family/amd64 L2s_v4:2:16 L4s_v4:4:32 L8s_v4:8:64 L16s_v4:16:128 L32s_v4:32:256 L48s_v4:48:384
  L64s_v4:64:512 L80s_v4:80:640 L96s_v4:96:768
standardMDSHighMemoryv3Family/amd64 M416ds_6_v3:416:5696 M416ds_8_v3:416:7600 M624ds_12_v3:624:11400
  M832ds_12_v3:832:11400
standardMDSMediumMemoryv2Family/amd64 M32dms_v2:32:875 M64dms_v2:64:1792 M64ds_v2:64:1024 M128dms_v2:128:3892
  M128ds_v2:128:2048
standardMDSMediumMemoryv3Family/amd64 M12ds_v3:12:240 M24ds_v3:24:480 M48ds_1_v3:48:974 M96ds_1_v3:96:974
  M96ds_2_v3:96:1946 M176ds_3_v3:176:2794 M176ds_4_v3:176:3892
standardMIDSHighMemoryv3Family/amd64 M832ids_16_v3:832:15200
standardMIDSMediumMemoryv2Family/amd64 M192idms_v2:192:4096 M192ids_v2:192:2048
standardMISHighMemoryv3Family/amd64 M832is_16_v3:832:15200
standardMISMediumMemoryv2Family/amd64 M192ims_v2:192:4096 M192is_v2:192:2048
standardMSFamily/amd64 M8-2ms:8:218 M8-4ms:8:218 M8ms:8:218 M16-4ms:16:437 M16-8ms:16:437 M16ms:16:437
  M32-16ms:32:875 M32-8ms:32:875 M32ls:32:256 M32ms:32:875 M32ts:32:192 M64:64:1024 M64-16ms:64:1792
  M64-32ms:64:1792 M64ls:64:512 M64m:64:1792 M64ms:64:1792 M64s:64:1024 M128:128:2048 M128-32ms:128:3892
  M128-64ms:128:3892 M128m:128:3892 M128ms:128:3892 M128s:128:2048
standardMSHighMemoryv3Family/amd64 M416s_6_v3:416:5696 M416s_8_v3:416:7600 M624s_12_v3:624:11400
  M832s_12_v3:832:11400
standardMSMediumMemoryv2Family/amd64 M32ms_v2:32:875 M64ms_v2:64:1792 M64s_v2:64:1024 M128ms_v2:128:3892
  M128s_v2:128:2048
standardMSMediumMemoryv3Family/amd64 M12s_v3:12:240 M24s_v3:24:480 M48s_1_v3:48:974 M96s_1_v3:96:974
  M96s_2_v3:96:1946 M176s_3_v3:176:2794 M176s_4_v3:176:3892
standardMSv2Family/amd64 M208ms_v2:208:5700 M208s_v2:208:2850 M416-208ms_v2:416:11400 M416-208s_v2:416:5700
  M416ms_v2:416:11400 M416s_10_v2:416:9496 M416s_8_v2:416:7600 M416s_9_v2:416:8568 M416s_v2:416:5700
standardNCSv3Family/amd64 NC6s_v3:6:112:1 NC12s_v3:12:224:2 NC24rs_v3:24:448:4 NC24s_v3:24:448:4
standardNDISRH200V5Family/amd64 ND96isr_H200_v5:96:1850:8
standardNDISv5MI300XFamily/amd64 ND96is_MI300X_v5:96:1850 ND96isr_MI300X_v5:96:1850:8
standardNDSH100v5Family/amd64 ND96isr_H100_v5:96:1900:8
standardNDSv2Family/amd64 ND40rs_v2:40:672:8
standardNPSFamily/amd64 NP10s:10:168:1 NP20s:20:336:2 NP40s:40:672:4
standardNVSv2Family/amd64 NV6s_v2:6:112:1 NV12s_v2:12:224:2 NV24s_v2:24:448:4
standardNVSv3Family/amd64 NV12s_v3:12:112:1 NV24s_v3:24:224:2 NV48s_v3:48:448:4
standardNVSv4Family/amd64 NV4as_v4:4:14:1 NV8as_v4:8:28:1 NV16as_v4:16:56:1 NV32as_v4:32:112:1
standardXEIDSv4Family/amd64 E80ids_v4:80:504
standardXEISv4Family/amd64 E80is_v4:80:504
"""
